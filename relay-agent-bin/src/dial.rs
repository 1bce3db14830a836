//! Outbound connections to the control plane: the only network code of the agent. It opens no port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::proxy::Proxy;
use crate::server_url::{Destination, ServerUrl};

/// Time for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection, encrypted or on this machine.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The trust of this host cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate authorities were found (on Debian: install `ca-certificates`).
    #[error("this host trusts no certificate authorities; install the package ca-certificates")]
    NoRoots,
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
    /// The host of the URL can be in no certificate.
    #[error("the host of the URL is no name that a certificate can have")]
    Name,
}

/// No connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Name lookup or TCP.
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
    /// Reads the certificate authorities of this host when the URL needs them.
    pub(crate) fn new(url: ServerUrl, proxy: Option<Proxy>) -> Result<Self, TlsError> {
        let tls = if url.is_encrypted() { Some((system_roots()?, server_name(&url)?)) } else { None };
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
            None => connect_to(&self.url.destination()).await.map_err(DialError::Connect)?,
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

async fn connect_to(destination: &Destination) -> io::Result<TcpStream> {
    match destination {
        Destination::Addresses(addresses) => TcpStream::connect::<&[SocketAddr]>(addresses).await,
        Destination::Name(name, port) => TcpStream::connect((name.as_str(), *port)).await,
    }
}

fn server_name(url: &ServerUrl) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(url.host()).map_err(|_| TlsError::Name)
}

fn system_roots() -> Result<TlsConnector, TlsError> {
    let mut roots = RootCertStore::empty();
    // Authorities that cannot be parsed are left out, as every TLS client does; trusting fewer is safe.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    connector(roots)
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, TlsError> {
    // The provider is named, not installed: a process-wide default would be a global that the host program owns.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
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
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
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

    fn dialer(url: ServerUrl, trusted: &CertificateDer<'static>) -> Dialer {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let tls = Some((connector(roots).unwrap(), server_name(&url).unwrap()));
        Dialer { url, proxy: None, tls }
    }

    #[tokio::test]
    async fn a_certificate_of_a_trusted_authority_is_accepted() {
        let authority = authority();
        let url = server("localhost", &authority).await;
        let mut stream = dialer(url, authority.der()).dial().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }

    #[tokio::test]
    async fn strange_authorities_and_other_names_are_refused() {
        let (ours, theirs) = (authority(), authority());
        for (name, issuer) in [("localhost", &theirs), ("cp.example", &ours)] {
            let url = server(name, issuer).await;
            let refused = dialer(url, ours.der()).dial().await.err();
            assert!(matches!(refused, Some(DialError::Tls(_))), "{name}");
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
        let refused = dialer(url, authority().der()).dial().await.err();
        assert!(matches!(refused, Some(DialError::Tls(_))));
        plain.await.unwrap();
    }
}
