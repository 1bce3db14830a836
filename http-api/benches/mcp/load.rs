//! The load: threads that send the same request over and over and read each answer to its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::Child;

/// One request, ready to send.
pub(crate) struct Load {
    address: String,
    request: Vec<u8>,
    body_bytes: usize,
}

/// The call that is measured.
pub(crate) fn call_body(tool: &str) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string().into_bytes()
}

impl Load {
    /// Calls the inventory tool.
    pub(crate) fn call(server: &Child) -> Self {
        Self::body(server, call_body("github__list_repos"))
    }

    /// Sends this body to `/mcp`.
    pub(crate) fn body(server: &Child, body: Vec<u8>) -> Self {
        Self::post(server, "/mcp", &[("mcp-protocol-version", "2025-06-18")], body)
    }

    /// Sends this body with these headers.
    pub(crate) fn post(server: &Child, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Self {
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            server.address,
            server.key,
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut request = head.into_bytes();
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(&body);
        Self { address: server.address.clone(), request, body_bytes: body.len() }
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes
    }
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self(BufReader::with_capacity(64 * 1024, stream))
    }

    fn exchange(&mut self, load: &Load) -> Answer {
        self.0.get_mut().write_all(&load.request).unwrap();
        let status = self.line();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = Vec::new();
        match length {
            Some((_, length)) => self.read(length.parse().unwrap(), &mut body),
            // In chunks, which end with an empty one.
            None => loop {
                let length = usize::from_str_radix(&self.line(), 16).unwrap();
                self.read(length, &mut body);
                self.line();
                if length == 0 {
                    break;
                }
            },
        }
        Answer { status, headers, body }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn read(&mut self, length: usize, into: &mut Vec<u8>) {
        let start = into.len();
        into.resize(start + length, 0);
        self.0.read_exact(&mut into[start..]).unwrap();
    }
}

/// One exchange on a connection of its own.
pub(crate) fn once(load: &Load) -> Answer {
    Connection::open(&load.address).exchange(load)
}

/// The body of one good answer.
pub(crate) fn one_answer(load: &Load) -> Vec<u8> {
    let answer = once(load);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    // Not every server says `isError` of what went well.
    let good = text.contains("\"content\":") && !text.contains("\"isError\":true");
    assert!(answer.status.contains("200") && good, "{} {text}", answer.status);
    answer.body
}

/// Requests per second over this many connections.
pub(crate) fn measure(load: &Load, connections: usize, round: Duration) -> f64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut connection = Connection::open(&load.address);
                while !stop.load(Ordering::Relaxed) {
                    let answer = connection.exchange(load);
                    assert!(answer.status.contains("200"), "{}", String::from_utf8_lossy(&answer.body));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // What is slow only once is not what is measured.
        std::thread::sleep(Duration::from_millis(200));
        done.store(0, Ordering::Relaxed);
        let started = Instant::now();
        std::thread::sleep(round);
        stop.store(true, Ordering::Relaxed);
        (started, done.load(Ordering::Relaxed), Instant::now())
    });
    let (from, count, to) = started;
    count as f64 / (to - from).as_secs_f64()
}
