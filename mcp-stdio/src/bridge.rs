//! The bridge itself: lines in, requests out, answers back as they come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::jsonrpc::{Id, Response, RpcError, code};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lines::{Line, next_line};
use crate::message::{self, Message};
use crate::server::{Answer, Link, LocateError, SendError, Server};

/// Messages out at once; further lines wait to be read.
const MOST_OUT: usize = 32;
/// Time for answers that are still out when the input ends. No call takes longer on the server.
const LAST_ANSWERS: Duration = Duration::from_secs(15);

/// A bridge between a pair of streams and one control plane.
pub struct Bridge {
    link: Arc<Link>,
    say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Bridge {
    /// A bridge to the control plane that `locate` finds. It is asked again whenever that one cannot be reached. `say` gets
    /// single lines for a person.
    ///
    /// # Errors
    /// [`LocateError`] when there is none to begin with.
    pub fn new(
        locate: impl Fn() -> Result<Server, LocateError> + Send + Sync + 'static,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, LocateError> {
        let link = Link::new(Box::new(locate))?;
        if let Some(warning) = link.warning() {
            say(&warning);
        }
        Ok(Self { link: Arc::new(link), say: Arc::new(say) })
    }

    /// Carries messages until the input ends and its answers are written, or nobody takes the output any more.
    ///
    /// # Errors
    /// When the input cannot be read.
    ///
    /// # Cancellation
    /// Dropping the future closes the responses that are out, which stops their calls on the server.
    pub async fn run(
        self,
        input: impl AsyncRead + Unpin,
        mut output: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        let (answers, mut to_write) = mpsc::channel::<Vec<u8>>(MOST_OUT);
        let gone = CancellationToken::new();
        let reading = self.read(BufReader::new(input), answers, gone.clone());
        let writing = async {
            while let Some(mut line) = to_write.recv().await {
                line.push(b'\n');
                if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
                    break;
                }
            }
            gone.cancel();
        };
        let (read, ()) = tokio::join!(reading, writing);
        read
    }

    async fn read(
        self,
        mut input: BufReader<impl AsyncRead + Unpin>,
        answers: mpsc::Sender<Vec<u8>>,
        gone: CancellationToken,
    ) -> std::io::Result<()> {
        let out =
            Out { link: self.link, say: self.say, answers, open: Arc::default(), revision: Arc::default() };
        let places = Arc::new(Semaphore::new(MOST_OUT));
        let tasks = TaskTracker::new();
        // Ends every task with this future, however it ends.
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let outcome = loop {
            let line = tokio::select! {
                biased;
                () = gone.cancelled() => return Ok(()),
                line = next_line(&mut input) => line,
            };
            let line = match line {
                Ok(Some(Line::Text(line))) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(Some(Line::Text(line))) => line,
                Ok(Some(Line::TooLong)) => {
                    let message = "a message is 1 MiB at most".to_owned();
                    let error = RpcError { code: code::INVALID_REQUEST, message, data: None };
                    out.answer(&Response::error(None, error)).await;
                    continue;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { break Ok(()) };
            let Some(work) = out.start(line).await else { continue };
            let stop = stop.clone();
            tasks.spawn(async move {
                let _place = place;
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = work => {}
                }
            });
        };
        tasks.close();
        drop(out);
        tokio::select! {
            () = gone.cancelled() => {}
            _ = tokio::time::timeout(LAST_ANSWERS, tasks.wait()) => {}
        }
        outcome
    }
}

/// What every message that is out shares.
#[derive(Clone)]
struct Out {
    link: Arc<Link>,
    say: Arc<dyn Fn(&str) + Send + Sync>,
    answers: mpsc::Sender<Vec<u8>>,
    /// Requests that have no answer yet, with what takes them back.
    open: Arc<Mutex<HashMap<Id, CancellationToken>>>,
    /// What `initialize` came to.
    revision: Arc<Mutex<Option<String>>>,
}

impl Out {
    /// Reads a line, and returns the work that it makes.
    async fn start(&self, line: Vec<u8>) -> Option<impl Future<Output = ()> + Send + 'static> {
        let revision = lock(&self.revision).clone();
        let message = match message::read(&line, revision.as_deref()) {
            Ok(message) => message,
            Err(refusal) => {
                self.answer(&refusal).await;
                return None;
            }
        };
        let (id, method, headers) = match message {
            Message::Request { id, method, headers } => (Some(id), method, headers),
            Message::Notification { headers } => (None, String::new(), headers),
            Message::Cancelled { id } => {
                if let Some(cancel) = id.and_then(|id| lock(&self.open).remove(&id)) {
                    cancel.cancel();
                }
                return None;
            }
            Message::Answer => return None,
        };
        let cancel = CancellationToken::new();
        if let Some(id) = &id {
            let is_known = lock(&self.open).contains_key(id);
            if is_known {
                let message = "this id is that of a request that has no answer yet".to_owned();
                let error = RpcError { code: code::INVALID_REQUEST, message, data: None };
                self.answer(&Response::error(Some(id.clone()), error)).await;
                return None;
            }
            lock(&self.open).insert(id.clone(), cancel.clone());
        }
        let out = self.clone();
        Some(async move {
            let sent = tokio::select! {
                biased;
                // Dropping the request closes its response, and with that the call. It gets no answer.
                () = cancel.cancelled() => return,
                sent = out.link.send(headers, line) => sent,
            };
            out.finish(id, &method, sent).await;
        })
    }

    async fn finish(&self, id: Option<Id>, method: &str, sent: Result<Answer, SendError>) {
        if let Some(id) = &id {
            // Taken back while its answer was on the way: nobody waits for it.
            if lock(&self.open).remove(id).is_none() {
                return;
            }
        }
        let trouble = match sent {
            Ok(answer) => match (is_message(&answer.body), id.is_some()) {
                (true, true) => {
                    if method == "initialize" {
                        *lock(&self.revision) = message::negotiated(&answer.body);
                    }
                    let _ = self.answers.send(answer.body).await;
                    return;
                }
                (_, false) if answer.status.is_success() => return,
                _ => refusal_text(&answer),
            },
            Err(error) => error.to_string(),
        };
        (self.say)(&trouble);
        if id.is_some() {
            let error = RpcError { code: code::INTERNAL_ERROR, message: trouble, data: None };
            self.answer(&Response::error(id, error)).await;
        }
    }

    async fn answer(&self, response: &Response) {
        // A channel without a reader means that the client is gone.
        let _ = self.answers.send(serde_json::to_vec(response).unwrap_or_default()).await;
    }
}

/// Whether a body is one JSON-RPC message on one line.
fn is_message(body: &[u8]) -> bool {
    !body.contains(&b'\n') && serde_json::from_slice::<Value>(body).is_ok_and(|body| body["jsonrpc"] == "2.0")
}

/// What a refusal that is no MCP message says, in one line.
fn refusal_text(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = body["message"].as_str().unwrap_or("it gave no reason");
    let message: String = message.chars().filter(|c| !c.is_control()).take(300).collect();
    let hint = match answer.status {
        StatusCode::UNAUTHORIZED => "; check the key file",
        StatusCode::NOT_FOUND | StatusCode::MISDIRECTED_REQUEST => "; check --url",
        _ => "",
    };
    format!("the control plane refused ({}): {message}{hint}", answer.status.as_u16())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
