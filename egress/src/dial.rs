//! One connection: resolve once, vet, dial only what was vetted, shake hands. Or: vet what can be told without a lookup,
//! ask the operator's proxy for a tunnel, shake hands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::error::EgressError;
use crate::policy::EgressPolicy;
use crate::proxy::{ProxyUrl, open_tunnel};
use crate::resolver::{ResolveError, Resolver};
use crate::target::EgressUrl;
use crate::verifier::handshake_error;
use crate::vetted::Vetted;

/// For the lookup and all attempts to connect together.
const DIAL: Duration = Duration::from_secs(3);
/// For the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A connection on which a request may be sent.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections to one base URL, and to nothing else.
pub(crate) struct Dialer {
    pub(crate) base: EgressUrl,
    pub(crate) policy: Arc<EgressPolicy>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Dialer {
    /// Opens one connection. The deadline is the call's; this step's own limits lie inside it.
    pub(crate) async fn dial(&self, deadline: Instant) -> Result<Box<dyn Stream>, EgressError> {
        let dial_deadline = deadline.min(Instant::now() + DIAL);
        let tcp = match &self.policy.proxy {
            Some(proxy) => self.tunnel(proxy, dial_deadline).await?,
            None => connect(&self.vetted(dial_deadline).await?, dial_deadline).await?,
        };
        if !self.base.is_https() {
            return Ok(Box::new(tcp));
        }
        let name =
            ServerName::try_from(self.base.host().to_owned()).map_err(|_| EgressError::TlsHandshake)?;
        let handshake = TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp);
        match timeout_at(deadline.min(Instant::now() + HANDSHAKE), handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(handshake_error(&error)),
            Err(_) => Err(EgressError::Timeout),
        }
    }

    /// A way to the host through the operator's proxy. The host's name is not resolved here.
    async fn tunnel(&self, proxy: &ProxyUrl, deadline: Instant) -> Result<TcpStream, EgressError> {
        // As when it was typed: without a lookup there is nothing else to hold the policy of today against.
        let url = self.base.as_url();
        EgressUrl::vet(url, url.as_str(), &self.policy)?;
        let found = match timeout_at(deadline, proxy.addresses(self.resolver.as_ref())).await {
            Ok(found) => found.map_err(|_| EgressError::Connect)?,
            Err(_) => return Err(EgressError::Timeout),
        };
        let mut tcp = connect(&Vetted::of_proxy(found, proxy.port()), deadline).await?;
        timeout_at(deadline, open_tunnel(&mut tcp, &self.base.host_and_port()))
            .await
            .unwrap_or(Err(EgressError::Timeout))?;
        Ok(tcp)
    }

    async fn vetted(&self, deadline: Instant) -> Result<Vetted, EgressError> {
        let host = self.base.host();
        let found = match self.base.literal() {
            Some(address) => vec![address],
            None => match timeout_at(deadline, self.resolver.resolve(host)).await {
                Ok(Ok(found)) => found,
                Ok(Err(ResolveError::NotFound)) => return Err(EgressError::Dns { retryable: false }),
                Ok(Err(ResolveError::Unavailable)) | Err(_) => {
                    return Err(EgressError::Dns { retryable: true });
                }
            },
        };
        if found.is_empty() {
            return Err(EgressError::Dns { retryable: false });
        }
        Ok(Vetted::of(host, found, self.base.port(), self.base.is_https(), &self.policy)?)
    }
}

/// Tries one address after the other, each with its share of the time that is left, so that one which swallows
/// packets leaves some for the next.
async fn connect(vetted: &Vetted, deadline: Instant) -> Result<TcpStream, EgressError> {
    let mut last = EgressError::Connect;
    for (address, left) in vetted.addresses().iter().zip((1..=vetted.addresses().len() as u32).rev()) {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / left;
        last = match timeout_at(now + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) if is_peer(&stream, *address) => {
                // Requests are small and written at once; waiting for more only adds delay.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Ok(_) | Err(_)) => EgressError::Connect,
            Err(_) => EgressError::Timeout,
        };
    }
    Err(last)
}

/// Belt and braces: the system says that we are connected to what was vetted.
fn is_peer(stream: &TcpStream, vetted: SocketAddr) -> bool {
    stream.peer_addr().is_ok_and(|peer| peer.ip() == vetted.ip() && peer.port() == vetted.port())
}
