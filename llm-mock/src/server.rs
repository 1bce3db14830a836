//! The routes, and the ways to serve them.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::completion::Completion;
use crate::decide::{Call, Reply, decide};
use crate::error::ApiError;
use crate::request::ChatRequest;

const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A model server, not yet listening.
#[derive(Clone, Default)]
pub struct LlmMock {
    key: Option<String>,
    script: Arc<Vec<Vec<Call>>>,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl LlmMock {
    /// A server that takes any key, and none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers 401 to whoever does not present this bearer token.
    #[must_use]
    pub fn requiring_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// In its first turns of a conversation it makes these calls, whatever it is asked: names that nobody offered,
    /// arguments that are no JSON, more calls than are good for anybody. A turn without calls, and every later one, is as
    /// usual.
    #[must_use]
    pub fn calling<'a>(self, turns: impl IntoIterator<Item = Vec<(&'a str, &'a str)>>) -> Self {
        let call =
            |(name, arguments): (&str, &str)| Call { name: name.to_owned(), arguments: arguments.to_owned() };
        let script = turns.into_iter().map(|turn| turn.into_iter().map(call).collect()).collect();
        Self { script: Arc::new(script), ..self }
    }

    /// The routes, for tests that need no socket.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/models", get(models))
            .fallback(async || ApiError::not_found())
            .method_not_allowed_fallback(async || ApiError::not_found())
            .with_state(self)
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// The listener is bound to an address that other machines can reach.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        if !listener.local_addr()?.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "llm-mock serves on loopback only"));
        }
        axum::serve(listener, self.router()).await
    }

    /// Serves on a free port of loopback until the handle is dropped.
    ///
    /// # Panics
    /// There is no free port, or no further thread.
    pub async fn start(self) -> Running {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::clone(&self.requests);
        let (stop, stopped) = oneshot::channel();
        let listener = listener.into_std().expect("the socket is still open");
        let server = std::thread::spawn(move || self.serve_until(stopped, listener));
        Running { address, requests, stop: Some(stop), server: Some(server) }
    }

    /// On a runtime of its own: with it end the connections too, which would outlive a task of the caller's.
    fn serve_until(self, stopped: oneshot::Receiver<()>, listener: std::net::TcpListener) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::from_std(listener).expect("a socket that does not block");
            tokio::select! {
                served = self.serve(listener) => served.expect("loopback is served"),
                // An error says that the handle is gone, which is what is waited for.
                _ = stopped => {}
            }
        });
    }

    fn reply(&self, request: &ChatRequest) -> Reply {
        match self.script.get(request.past_turns()) {
            Some(calls) if !calls.is_empty() => Reply::Calls(calls.clone()),
            Some(_) | None => decide(request),
        }
    }

    fn check_key(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(key) = &self.key else { return Ok(()) };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|text| text.strip_prefix("Bearer "));
        if token == Some(key.as_str()) { Ok(()) } else { Err(ApiError::key()) }
    }
}

/// A server that listens; dropping it stops it, and when `drop` returns the port is free.
pub struct Running {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Running {
    /// The base URL for a client, with `/v1` and without a slash after it.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of the chat requests so far, the refused ones too unless they were no JSON or had the wrong key.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            // Its panic has been printed; another one here would hide the failure of the test.
            let _ = server.join();
        }
    }
}

async fn models(State(mock): State<LlmMock>, headers: HeaderMap) -> Result<Response, ApiError> {
    mock.check_key(&headers)?;
    let model = json!({"id": "llm-mock", "object": "model", "created": 0, "owned_by": "llm-mock"});
    Ok(json_response(&json!({"object": "list", "data": [model]})))
}

async fn chat(State(mock): State<LlmMock>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let bytes = read(body).await?;
    mock.check_key(&headers)?;
    let body: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::body(format!("the body is not JSON: {error}")))?;
    mock.requests.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
    let request = ChatRequest::parse(&body)?;
    let completion = Completion::new(&request, mock.reply(&request));
    if !request.streams() {
        return Ok(json_response(&completion.whole()));
    }
    let events = stream::iter(completion.events().into_iter().map(Ok::<_, Infallible>));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

/// A body that is too large is read to its end all the same, and dropped: a client that is cut off while it writes may
/// never see the answer.
async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut length = 0;
    let mut data = body.into_data_stream();
    while let Some(piece) = data.next().await {
        let piece = piece.map_err(|_| ApiError::body("the body did not arrive whole"))?;
        length += piece.len();
        if length <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&piece);
        }
    }
    if length > MAX_BODY_BYTES { Err(ApiError::too_large()) } else { Ok(bytes) }
}

fn json_response(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
