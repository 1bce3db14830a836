//! A fake upstream that can misbehave, and fake resolvers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;

use crate::{EgressPolicy, Mode, ResolveError, Resolver};

/// A request that the server saw.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method, as sent.
    pub method: String,
    /// The path, still encoded.
    pub path: String,
    /// What followed `?`, or nothing.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: serde_json::Value) -> Self {
        let _ = body;
        Self { status }
    }
    /// An answer of any kind. A `Content-Length` is added unless the headers have one, or `transfer-encoding`.
    pub fn raw(status: u16, reason: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let _ = (reason, headers, body.into());
        Self { status }
    }
    /// Adds a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        let _ = (name, value);
        self
    }
    /// Waits before the first byte.
    #[must_use]
    pub fn delay(self, time: Duration) -> Self {
        let _ = time;
        self
    }
    /// Sends the body byte by byte with this pause between two.
    #[must_use]
    pub fn drip(self, pause: Duration) -> Self {
        let _ = pause;
        self
    }
    /// Breaks the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        let _ = bytes;
        self
    }
    /// Sends no length, and closes TCP without TLS's `close_notify`.
    #[must_use]
    pub fn no_close_notify(self) -> Self {
        self
    }
    /// Repeats the body for ever.
    #[must_use]
    pub fn endless(self) -> Self {
        self
    }
}

/// A server on loopback. Stops when dropped.
pub struct FakeServer {}

impl FakeServer {
    /// Serves HTTPS with a certificate of its own authority.
    pub async fn https() -> Self {
        Self {}
    }
    /// Serves plain HTTP.
    pub async fn http() -> Self {
        Self {}
    }
    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        String::new()
    }
    /// SHA-256 of the certificate, lower-case hex.
    pub fn fingerprint(&self) -> String {
        String::new()
    }
    /// The certificate of the authority.
    pub fn ca_pem(&self) -> String {
        String::new()
    }
    /// Answers a path, or a path with this query, from now on.
    pub fn on(&self, path_and_maybe_query: &str, reply: Reply) {
        let _ = (path_and_maybe_query, reply.status);
    }
    /// Answers a path with what the function makes of the request.
    pub fn on_fn(&self, path_and_maybe_query: &str, answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        let _ = (path_and_maybe_query, answer);
    }
    /// Answers everything else; 404 without it.
    pub fn fallback(&self, reply: Reply) {
        let _ = reply;
    }
    /// Every request so far.
    pub fn requests(&self) -> Vec<Seen> {
        Vec::new()
    }
    /// How many TCP connections were accepted.
    pub fn accepted(&self) -> usize {
        0
    }
}

/// The policy for [`FakeServer`]: loopback, any port, plain HTTP.
pub fn loopback_policy() -> Arc<EgressPolicy> {
    Arc::new(EgressPolicy {
        mode: Mode::SelfHosted,
        allow_http: true,
        allow_loopback: true,
        ports: (1..=u16::MAX).collect(),
        ..EgressPolicy::default()
    })
}

/// Gives the same answer to every name.
#[derive(Debug, Clone)]
pub struct StaticResolver(pub Result<Vec<IpAddr>, ResolveError>);

#[async_trait]
impl Resolver for StaticResolver {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        self.0.clone()
    }
}
