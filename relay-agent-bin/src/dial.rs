//! Outbound connections to the control plane: the only network code of the agent. It opens no port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::proxy::Proxy;
use crate::server_url::{Destination, ServerUrl};
use crate::trust::{Trust, TrustError};

/// Time for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection, encrypted or on this machine.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Nothing that could be dialled securely.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Whom to trust is not known.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The host of the URL can be in no certificate.
    #[error("the host of the URL is no name that a certificate can have")]
    Name,
}

/// No connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name of the host means nothing to this host's resolver.
    #[error("the name cannot be looked up")]
    Lookup(#[source] io::Error),
    /// TCP.
    #[error("no connection")]
    Connect(#[source] io::Error),
    /// The proxy did not let us through.
    #[error("no connection through the proxy")]
    Proxy(#[source] io::Error),
    /// TLS; mostly a certificate that this host does not trust.
    #[error("no secure connection")]
    Tls(#[source] io::Error),
    /// It took longer than 10 s.
    #[error("no connection within 10 s")]
    TimedOut,
}

/// Knows how to reach one control plane.
pub(crate) struct Dialer {
    url: ServerUrl,
    proxy: Option<Proxy>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// Reads the trusted authorities when the URL needs them.
    pub(crate) fn new(url: ServerUrl, trust: &Trust, proxy: Option<Proxy>) -> Result<Self, TlsError> {
        let tls = if url.is_encrypted() {
            let config = Arc::new(trust.client_config()?);
            Some((TlsConnector::from(config), server_name(&url)?))
        } else {
            None
        };
        // What stays on this machine is nobody else's business.
        let proxy = proxy.filter(|_| !url.is_loopback());
        Ok(Self { url, proxy, tls })
    }

    pub(crate) fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Opens a connection. Dropping the future gives it up.
    pub(crate) async fn dial(&self) -> Result<Box<dyn Connection>, DialError> {
        tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await.map_err(|_| DialError::TimedOut)?
    }

    async fn connect(&self) -> Result<Box<dyn Connection>, DialError> {
        let stream = match &self.proxy {
            Some(proxy) => proxy.tunnel(&self.url.host(), self.url.port()).await.map_err(DialError::Proxy)?,
            None => connect_to(&self.url.destination()).await?,
        };
        // Frames are small and each is waited for.
        stream.set_nodelay(true).map_err(DialError::Connect)?;
        match &self.tls {
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(DialError::Tls)?;
                Ok(Box::new(stream))
            }
            None => Ok(Box::new(stream)),
        }
    }
}

async fn connect_to(destination: &Destination) -> Result<TcpStream, DialError> {
    let found: Vec<SocketAddr>;
    let addresses = match destination {
        Destination::Addresses(addresses) => addresses,
        Destination::Name(name, port) => {
            let looked_up = tokio::net::lookup_host((name.as_str(), *port)).await;
            found = looked_up.map_err(DialError::Lookup)?.collect();
            &found
        }
    };
    TcpStream::connect(addresses.as_slice()).await.map_err(DialError::Connect)
}

fn server_name(url: &ServerUrl) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(url.host()).map_err(|_| TlsError::Name)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A server on loopback that says `hello` with a certificate for this name, and its URL.
    async fn server(name: &str, issuer: &CertifiedIssuer<'static, KeyPair>) -> ServerUrl {
        server_with(name, issuer, issuer).await
    }

    /// The same, with the certificate of another authority sent along.
    async fn server_with(
        name: &str,
        issuer: &CertifiedIssuer<'static, KeyPair>,
        sent: &CertifiedIssuer<'static, KeyPair>,
    ) -> ServerUrl {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone(), sent.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0;
            if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                stream.write_all(b"hello").await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        url.parse().unwrap()
    }

    /// A dialer that trusts this authority, by its file.
    fn dialer(url: ServerUrl, trusted: &CertifiedIssuer<'static, KeyPair>) -> Dialer {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, trusted.as_ref().pem()).unwrap();
        Dialer::new(url, &Trust::CaFile(path), None).unwrap()
    }

    /// A dialer that knows the SHA-256 of this certificate and nothing else.
    fn pinned(url: ServerUrl, certificate: &CertificateDer<'_>) -> Dialer {
        let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Dialer::new(url, &Trust::CaSha256(hash.parse().unwrap()), None).unwrap()
    }

    #[tokio::test]
    async fn a_certificate_of_a_trusted_authority_is_accepted() {
        let authority = authority();
        let url = server("localhost", &authority).await;
        let mut stream = dialer(url, &authority).dial().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }

    #[tokio::test]
    async fn strange_authorities_and_other_names_are_refused() {
        let (ours, theirs) = (authority(), authority());
        for (name, issuer) in [("localhost", &theirs), ("cp.example", &ours)] {
            let url = server(name, issuer).await;
            let refused = dialer(url, &ours).dial().await.err();
            assert!(matches!(refused, Some(DialError::Tls(_))), "{name}");
        }
    }

    #[tokio::test]
    async fn the_hash_of_the_authority_is_enough_and_that_of_the_server_is_not() {
        let (ours, theirs) = (authority(), authority());
        let url = server("localhost", &ours).await;
        let mut stream = pinned(url, ours.der()).dial().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        // Another authority; the right one with a certificate for another host; and the authority's certificate sent along
        // by a server that it did not certify.
        let forged = server_with("localhost", &theirs, &ours).await;
        for (url, trusted) in [
            (server("localhost", &theirs).await, &ours),
            (server("cp.example", &ours).await, &ours),
            (forged, &ours),
        ] {
            let refused = pinned(url, trusted.der()).dial().await.err();
            assert!(matches!(refused, Some(DialError::Tls(_))));
        }
    }

    #[tokio::test]
    async fn a_server_without_encryption_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
        let plain = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap().0;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        });
        let refused = dialer(url, &authority()).dial().await.err();
        assert!(matches!(refused, Some(DialError::Tls(_))));
        plain.await.unwrap();
    }
}
