//! The control plane at the other end of the bridge.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::secret::SecretValue;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, StatusCode};
use tokio::time::Instant;
use url::{Host, Url};

/// How long a control plane that cannot be connected to is tried again.
const RESTART: Duration = Duration::from_secs(5);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Longer than any call may take on the server (10 s), so that its own answer arrives.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Where a control plane is, and with what key to talk to it.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its URL, without `/mcp`.
    pub url: String,
    /// An API key.
    pub key: SecretValue,
    /// Certificates of the authority that signed the server's, in PEM, when no public one did.
    pub ca_pem: Option<Vec<u8>>,
}

/// There is no control plane to talk to. Each text is one line that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// Nobody said where it is, or what was said cannot be read.
    #[error("{0}")]
    Unknown(String),
    /// The URL is none.
    #[error("{0} is no URL of a control plane: write https://HOST or http://127.0.0.1:PORT")]
    Url(String),
    /// The certificates cannot be used.
    #[error("the CA file holds no certificate in PEM form")]
    Ca,
}

/// An answer of the control plane.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("the control plane at {0} does not answer; is it running?")]
    Unreachable(String),
    #[error("the connection to the control plane at {0} was lost before it answered; try again")]
    Lost(String),
    #[error(transparent)]
    Locate(#[from] LocateError),
}

type Locate = Box<dyn Fn() -> Result<Server, LocateError> + Send + Sync>;

/// Knows the control plane, and looks for it again when it is gone: one that was restarted may be elsewhere.
pub(crate) struct Link {
    locate: Locate,
    connected: Mutex<Arc<Connection>>,
}

struct Connection {
    client: Client,
    endpoint: Url,
    key: SecretValue,
}

impl Link {
    pub(crate) fn new(locate: Locate) -> Result<Self, LocateError> {
        let connected = Mutex::new(Arc::new(Connection::to(locate()?)?));
        Ok(Self { locate, connected })
    }

    /// What a person should know before the first message is sent.
    pub(crate) fn warning(&self) -> Option<String> {
        let endpoint = &self.current().endpoint;
        (endpoint.scheme() == "http" && !is_loopback(endpoint)).then(|| {
            format!("warning: {endpoint} is plain http to another machine, so the key can be read on the way")
        })
    }

    /// Sends one message. A server that cannot be connected to is tried for five seconds; a message that may have arrived
    /// is never sent twice.
    pub(crate) async fn send(&self, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, SendError> {
        let give_up = Instant::now() + RESTART;
        loop {
            let connection = self.current();
            let url = connection.endpoint.to_string();
            match connection.post(headers.clone(), body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) if !error.is_connect() => return Err(SendError::Lost(url)),
                Err(_) if Instant::now() >= give_up => return Err(SendError::Unreachable(url)),
                Err(_) => {
                    tokio::time::sleep(TRY_AGAIN_AFTER).await;
                    self.look_again();
                }
            }
        }
    }

    fn current(&self) -> Arc<Connection> {
        Arc::clone(&self.connected.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// While it restarts, what says where it is may be missing; the old place is then as good a guess as any.
    fn look_again(&self) {
        let Ok(found) = (self.locate)().and_then(Connection::to) else { return };
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
    }
}

impl Connection {
    fn to(server: Server) -> Result<Self, LocateError> {
        let Server { url, key, ca_pem } = server;
        let bad = || LocateError::Url(url.clone());
        let base = Url::parse(&url).map_err(|_| bad())?;
        let endpoint = base.join("/mcp").map_err(|_| bad())?;
        let is_plain = matches!(base.scheme(), "http" | "https")
            && base.username().is_empty()
            && base.password().is_none()
            && base.path() == "/"
            && base.query().is_none();
        if !is_plain {
            return Err(bad());
        }
        let mut client = Client::builder().redirect(Policy::none()).timeout(ANSWER_WITHIN);
        if is_loopback(&endpoint) {
            // This very machine is meant, whatever proxy the environment names.
            client = client.no_proxy();
        }
        for certificate in
            Certificate::from_pem_bundle(&ca_pem.unwrap_or_default()).map_err(|_| LocateError::Ca)?
        {
            client = client.add_root_certificate(certificate);
        }
        Ok(Self { client: client.build().map_err(|_| LocateError::Ca)?, endpoint, key })
    }

    async fn post(&self, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, reqwest::Error> {
        #[expect(clippy::disallowed_methods, reason = "the key enters the request that it authenticates")]
        let key = self.key.reveal();
        let request = self.client.post(self.endpoint.clone()).bearer_auth(key).headers(headers);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let response = request.body(body).send().await?;
        let status = response.status();
        Ok(Answer { status, body: response.bytes().await?.to_vec() })
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
