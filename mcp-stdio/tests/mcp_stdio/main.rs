//! The bridge between pipes and a server that does as it is told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use mcp_core::secret::SecretValue;
use mcp_stdio::{Bridge, LocateError, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server saw and how often a request was dropped before its answer.
#[derive(Default)]
struct Seen {
    headers: Mutex<Vec<(String, HeaderMap)>>,
    hanging: AtomicUsize,
    dropped: AtomicUsize,
}

struct CountDrop(Arc<Seen>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn answer(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).expect("a message");
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    seen.headers.lock().expect("lock").push((method.clone(), headers));
    let result = |result: Value| {
        Body::from(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
            .into_response()
    };
    match method.as_str() {
        "initialize" => result(json!({"protocolVersion": "2025-06-18"})),
        "hang" => {
            seen.hanging.fetch_add(1, Ordering::SeqCst);
            let _guard = CountDrop(seen);
            std::future::pending().await
        }
        "refused" => {
            let body = json!({"error": "unauthenticated", "message": "a valid API key is needed"});
            (StatusCode::UNAUTHORIZED, body.to_string()).into_response()
        }
        "lines" => Body::from("{\"jsonrpc\":\"2.0\",\n\"id\":1}").into_response(),
        _ if message.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
        _ => result(json!({"method": method})),
    }
}

/// A server on this address, until the handle is aborted.
async fn serve(address: &str) -> (String, Arc<Seen>, JoinHandle<()>) {
    let seen = Arc::new(Seen::default());
    let router = axum::Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&seen));
    let listener = TcpListener::bind(address).await.expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let running = tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
    (url, seen, running)
}

/// A client at the other end of the pipes.
struct Client {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    said: Arc<Mutex<Vec<String>>>,
    bridge: JoinHandle<std::io::Result<()>>,
}

impl Client {
    fn of(url: &str) -> Self {
        let url = url.to_owned();
        Self::locating(move || {
            Ok(Server { url: url.clone(), key: SecretValue::new("cck_x".to_owned()), ca_pem: None })
        })
    }

    fn locating(locate: impl Fn() -> Result<Server, LocateError> + Send + Sync + 'static) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let saying = Arc::clone(&said);
        let bridge = Bridge::new(locate, move |line| saying.lock().expect("lock").push(line.to_owned()));
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(theirs);
        let bridge = tokio::spawn(bridge.expect("a bridge").run(read, write));
        let (read, input) = tokio::io::split(ours);
        Self { input, output: BufReader::new(read).lines(), said, bridge }
    }

    async fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("written");
    }

    async fn request(&mut self, id: Value, method: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string()).await;
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(20), self.output.next_line()).await;
        let line = line.expect("in time").expect("readable").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Ends the input; the bridge must end by itself.
    async fn end(mut self) -> Vec<String> {
        self.input.shutdown().await.expect("shut down");
        while let Some(_rest) = self.output.next_line().await.expect("readable") {}
        self.bridge.await.expect("no panic").expect("no error");
        Arc::try_unwrap(self.said).expect("the last owner").into_inner().expect("lock")
    }
}

async fn eventually(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// proves: M-09
#[tokio::test]
async fn requests_cross_and_answers_come_back_under_their_ids() {
    let (url, seen, _server) = serve("127.0.0.1:0").await;
    let mut client = Client::of(&url);
    client.request(json!("init"), "initialize").await;
    assert_eq!(client.next().await["result"]["protocolVersion"], "2025-06-18");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    client.send("").await;
    for id in 0..20 {
        client.request(json!(id), "tools/list").await;
    }
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(client.next().await["id"].as_i64().expect("a number"));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    assert_eq!(client.end().await, Vec::<String>::new());

    let headers = seen.headers.lock().expect("lock");
    let of = |method: &str| &headers.iter().find(|(name, _)| name == method).expect("seen").1;
    assert!(!of("initialize").contains_key("mcp-protocol-version"));
    assert_eq!(of("tools/list")["mcp-protocol-version"], "2025-06-18");
    assert_eq!(of("tools/list")["authorization"], "Bearer cck_x");
    assert!(headers.iter().any(|(method, _)| method == "notifications/initialized"));
}

// proves: C-Q08
#[tokio::test]
async fn a_cancelled_request_is_closed_within_a_second_and_gets_no_answer() {
    let (url, seen, _server) = serve("127.0.0.1:0").await;
    let mut client = Client::of(&url);
    client.request(json!(1), "hang").await;
    eventually(|| seen.hanging.load(Ordering::SeqCst) == 1).await;
    // Somebody else's id and one that nobody has change nothing.
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}"#).await;
    client.request(json!(2), "ping").await;
    assert_eq!(client.next().await["id"], 2);
    assert_eq!(seen.dropped.load(Ordering::SeqCst), 0);

    let cancelled = Instant::now();
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    eventually(|| seen.dropped.load(Ordering::SeqCst) == 1).await;
    assert!(cancelled.elapsed() < Duration::from_secs(1));
    client.request(json!(1), "ping").await;
    assert_eq!(client.next().await["result"]["method"], "ping");
    client.end().await;
}

// proves: M-03
#[tokio::test]
async fn what_is_no_message_is_answered_and_the_next_line_is_served() {
    let (url, _, _server) = serve("127.0.0.1:0").await;
    let mut client = Client::of(&url);
    let huge = "x".repeat(1024 * 1024 + 1);
    for (line, code) in [("nonsense", -32_700), ("[1]", -32_600), (huge.as_str(), -32_600)] {
        client.send(line).await;
        let answer = client.next().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null));
        client.request(json!("next"), "ping").await;
        assert_eq!(client.next().await["id"], "next");
    }
    client.request(json!(1), "hang").await;
    client.request(json!(1), "ping").await;
    assert_eq!(client.next().await["error"]["code"], -32_600);
    drop(client);
}

#[tokio::test]
async fn a_server_that_restarts_elsewhere_is_found_again() {
    let (first, _, running) = serve("127.0.0.1:0").await;
    let place = Arc::new(Mutex::new(first));
    let places = Arc::clone(&place);
    let mut client = Client::locating(move || {
        let url = places.lock().expect("lock").clone();
        Ok(Server { url, key: SecretValue::new("cck_x".to_owned()), ca_pem: None })
    });
    client.request(json!(1), "ping").await;
    assert_eq!(client.next().await["id"], 1);
    running.abort();
    let _ = running.await;
    let (second, _, _server) = serve("127.0.0.1:0").await;
    *place.lock().expect("lock") = second;
    client.request(json!(2), "ping").await;
    assert_eq!(client.next().await["id"], 2);
    client.end().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_in_one_line_and_in_the_answer() {
    let (url, _, running) = serve("127.0.0.1:0").await;
    running.abort();
    let _ = running.await;
    let mut client = Client::of(&url);
    client.request(json!(7), "ping").await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32_603)));
    let text = answer["error"]["message"].as_str().expect("text").to_owned();
    assert!(text.contains("is it running?"), "{text}");
    assert_eq!(client.end().await, [text]);
}

#[tokio::test]
async fn a_refusal_that_is_no_message_becomes_one() {
    let (url, _, _server) = serve("127.0.0.1:0").await;
    let mut client = Client::of(&url);
    client.request(json!("a"), "refused").await;
    let answer = client.next().await;
    assert_eq!(answer["id"], "a");
    let text = answer["error"]["message"].as_str().expect("text");
    assert!(text.contains("401") && text.contains("a valid API key") && text.contains("key file"), "{text}");
    // An answer on two lines would be two messages.
    client.request(json!("b"), "lines").await;
    assert_eq!(client.next().await["error"]["code"], -32_603);
    client.end().await;
}

#[tokio::test]
async fn an_input_that_ends_at_once_is_no_failure_and_a_url_that_is_none_is_said_before() {
    let (url, _, _server) = serve("127.0.0.1:0").await;
    assert_eq!(Client::of(&url).end().await, Vec::<String>::new());
    for url in ["nonsense", "ftp://host", "http://u:p@host", "http://host/mcp", "http://host/?a=b"] {
        let locate =
            move || Ok(Server { url: url.to_owned(), key: SecretValue::new("k".to_owned()), ca_pem: None });
        assert_eq!(Bridge::new(locate, |_| ()).err(), Some(LocateError::Url(url.to_owned())));
    }
    let bad_ca = || {
        let ca_pem = Some(b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----".to_vec());
        Ok(Server { url: "https://host".to_owned(), key: SecretValue::new("k".to_owned()), ca_pem })
    };
    assert_eq!(Bridge::new(bad_ca, |_| ()).err(), Some(LocateError::Ca));
}
