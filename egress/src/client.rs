//! The client of one configured upstream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{HOST, HeaderValue, USER_AGENT};
use http_body_util::Empty;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::dial::Dialer;
use crate::error::EgressError;
use crate::get::Get;
use crate::policy::EgressPolicy;
use crate::pool::{Connection, Pool};
use crate::refusal::Refusal;
use crate::resolver::Resolver;
use crate::response::{Response, read};
use crate::target::EgressUrl;
use crate::trust::TlsTrust;
use crate::verifier::client_config;

/// For one call: lookup, dial, handshake, request and the whole answer.
const TOTAL: Duration = Duration::from_secs(10);

const OUR_NAME: &str = concat!("coreci/", env!("CARGO_PKG_VERSION"));

/// What a look at the host found, for a configuration check. No request is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProbe {
    /// A connection is to be had, and its certificate is trusted (or it is plain `http`, where that is allowed).
    Ok,
    /// The guard refused.
    Refused(Refusal),
    /// The name gave no address.
    Dns {
        /// Whether the resolver failed, rather than said no.
        retryable: bool,
    },
    /// The certificate is not trusted.
    Untrusted {
        /// SHA-256 of the certificate (DER), lower-case hex, for a person to confirm by another way.
        fingerprint_hex: String,
    },
    /// The certificate is not the pinned one.
    PinMismatch {
        /// SHA-256 of the certificate (DER), lower-case hex.
        presented: String,
    },
    /// Anything else: no connection, no TLS, no time.
    Unreachable(EgressError),
}

/// The client of one configured upstream. It reads, and nothing else: no other method, no body, no cookies, no
/// redirects, no proxy from the environment, no encoding.
///
/// A client is for one tenant's upstream and is never shared: it keeps connections, and its trust.
pub struct UpstreamClient {
    dialer: Dialer,
    host_header: HeaderValue,
    pool: Pool,
}

impl UpstreamClient {
    /// Makes a client. Nothing is dialled yet.
    ///
    /// # Errors
    /// [`EgressError::Request`] if the trust holds no certificate.
    pub fn new(
        base: EgressUrl,
        trust: TlsTrust,
        policy: Arc<EgressPolicy>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, EgressError> {
        let tls =
            client_config(&trust).map_err(|_| EgressError::Request("the certificates to trust are none"))?;
        let host_header = HeaderValue::from_str(&base.authority())
            .map_err(|_| EgressError::Request("the host is no header value"))?;
        let dialer = Dialer { base, policy, resolver, tls: Arc::new(tls) };
        Ok(Self { dialer, host_header, pool: Pool::default() })
    }

    /// Sends a request and reads the answer to its end, in at most 10 s.
    ///
    /// Every new connection resolves the name and vets its addresses again. A connection that was idle and turns out
    /// to be closed is replaced once.
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    /// See [`EgressError`]. A status of 400 or more is a response, not an error.
    pub async fn get(&self, request: Get) -> Result<Response, EgressError> {
        let deadline = request.deadline_or(Instant::now() + TOTAL);
        timeout_at(deadline, self.exchange(&request, deadline)).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Dials and shakes hands on a connection of its own, but asks nothing.
    pub async fn probe_tls(&self) -> TlsProbe {
        match self.dialer.dial(Instant::now() + TOTAL).await {
            Ok(_) => TlsProbe::Ok,
            Err(EgressError::Refused(refusal)) => TlsProbe::Refused(refusal),
            Err(EgressError::Dns { retryable }) => TlsProbe::Dns { retryable },
            Err(EgressError::TlsUntrusted { fingerprint }) => {
                TlsProbe::Untrusted { fingerprint_hex: fingerprint }
            }
            Err(EgressError::PinMismatch { presented }) => TlsProbe::PinMismatch { presented },
            Err(error) => TlsProbe::Unreachable(error),
        }
    }

    /// Where it dials.
    pub fn base(&self) -> &EgressUrl {
        &self.dialer.base
    }

    pub(crate) fn policy(&self) -> &EgressPolicy {
        &self.dialer.policy
    }

    async fn exchange(&self, get: &Get, deadline: Instant) -> Result<Response, EgressError> {
        if let Some(mut idle) = self.pool.take() {
            // Only a head that came counts: an idle connection may have been closed a moment ago.
            if let Ok(head) = idle.send(self.request(get)?).await {
                return self.finish(idle, head).await;
            }
        }
        let request = self.request(get)?;
        let mut fresh = Connection::over(self.dialer.dial(deadline).await?).await?;
        let head = fresh.send(request).await?;
        self.finish(fresh, head).await
    }

    fn request(&self, get: &Get) -> Result<Request<Empty<Bytes>>, EgressError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = get.uri(self.base())?;
        *request.headers_mut() = get.header_map()?;
        request.headers_mut().insert(HOST, self.host_header.clone());
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        Ok(request)
    }

    async fn finish(
        &self,
        connection: Connection,
        head: http::Response<Incoming>,
    ) -> Result<Response, EgressError> {
        let response = read(head).await?;
        if response.body_complete {
            self.pool.put(connection);
        }
        Ok(response)
    }
}
