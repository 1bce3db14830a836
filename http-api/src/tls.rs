//! The certificate that the public listener shows, and how it is replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at. Renewal tools replace them by rename, links or both; reading finds all of it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where the certificate lies, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and then those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signed it, when that is a private one. It is sent along, so that an agent that knows its SHA-256
    /// and nothing else can check the chain.
    pub ca: Option<PathBuf>,
}

/// The files make no certificate that this server could show. Each text names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// A file cannot be read, or holds nothing of the kind that belongs there.
    #[error("{path} is no PEM file that holds a {what}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What belongs there.
        what: &'static str,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// The key does not belong to the certificate, or is of an unknown kind.
    #[error("{key} is not the private key of {cert}: {source}")]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Nobody could connect: the certificate is for another name, has expired, or comes from another authority.
    #[error("the certificate in {cert} does not serve {host}: {source}")]
    Unfit {
        /// The certificate's file.
        cert: PathBuf,
        /// The host of the public URL.
        host: String,
        /// Why.
        source: rustls::Error,
    },
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// A certificate in use. Clones share it.
#[derive(Clone)]
pub struct ServerTls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
}

struct Current {
    files: TlsFiles,
    host: String,
    provider: Arc<CryptoProvider>,
    pair: RwLock<Pair>,
}

/// What was read last.
#[derive(Clone)]
struct Pair {
    shown: Arc<CertifiedKey>,
    ca: Option<CertificateDer<'static>>,
}

impl ServerTls {
    /// Reads the files and checks that they belong together. With a private authority it is also checked that a client who
    /// trusts it could connect to `host` (a name, or an address without brackets) today.
    ///
    /// # Errors
    /// [`TlsFileError`].
    pub fn load(files: TlsFiles, host: &str) -> Result<Self, TlsFileError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = read(&files, host, &provider)?;
        let current = Arc::new(Current {
            files,
            host: host.to_owned(),
            provider: Arc::clone(&provider),
            pair: RwLock::new(pair),
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsFileError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current })
    }

    /// The private authority's certificate (DER), if there is one.
    #[must_use]
    pub fn private_ca(&self) -> Option<Vec<u8>> {
        self.current.pair().ca.map(|ca| ca.to_vec())
    }

    /// Reads the files anew. New connections see what they hold; a pair that is no good changes nothing, since half of a
    /// replacement may be all that is there yet.
    ///
    /// # Errors
    /// [`TlsFileError`].
    pub fn reload(&self) -> Result<(), TlsFileError> {
        let pair = read(&self.current.files, &self.current.host, &self.current.provider)?;
        let mut held = self.current.pair.write().unwrap_or_else(PoisonError::into_inner);
        if held.shown.cert != pair.shown.cert {
            tracing::info!(path = %self.current.files.cert.display(), "the certificate was replaced");
        }
        *held = pair;
        Ok(())
    }

    /// Keeps up with the files until `shutdown`. What is wrong with them is logged once, not every time.
    pub async fn keep_up(self, shutdown: CancellationToken) {
        let mut told = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let again = self.clone();
            let read = tokio::task::spawn_blocking(move || again.reload().map_err(|error| error.to_string()));
            match read.await {
                Ok(Ok(())) => told = None,
                Ok(Err(error)) => {
                    metrics::counter!("coreci_tls_reload_failures_total").increment(1);
                    if told.as_ref() != Some(&error) {
                        tracing::error!(
                            error,
                            "the certificate cannot be replaced; the old one stays in use"
                        );
                        told = Some(error);
                    }
                }
                Err(error) => tracing::error!(%error, "reading the certificate panicked"),
            }
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.current.files).finish_non_exhaustive()
    }
}

impl Current {
    fn pair(&self) -> Pair {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair().shown)
    }
}

fn read(files: &TlsFiles, host: &str, provider: &Arc<CryptoProvider>) -> Result<Pair, TlsFileError> {
    let mut chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsFileError::Unreadable {
        path: files.key.clone(),
        what: "private key",
        source,
    })?;
    let ca = match &files.ca {
        Some(path) => certificates(path)?.into_iter().next(),
        None => None,
    };
    if let Some(ca) = &ca {
        check_chain(&chain, ca, host, provider).map_err(|source| TlsFileError::Unfit {
            cert: files.cert.clone(),
            host: host.to_owned(),
            source,
        })?;
        if !chain.contains(ca) {
            chain.push(ca.clone());
        }
    }
    let shown = CertifiedKey::from_der(chain, key, provider).map_err(|source| TlsFileError::Pair {
        cert: files.cert.clone(),
        key: files.key.clone(),
        source,
    })?;
    Ok(Pair { shown: Arc::new(shown), ca })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let unreadable = |source| TlsFileError::Unreadable { path: path.to_owned(), what: "certificate", source };
    let found = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    if found.is_empty() {
        return Err(unreadable(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(found)
}

/// Looks at the chain with the eyes of a client that trusts this authority alone.
fn check_chain(
    chain: &[CertificateDer<'static>],
    ca: &CertificateDer<'static>,
    host: &str,
    provider: &Arc<CryptoProvider>,
) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| rustls::Error::General("no certificate can be for that host".to_owned()))?;
    let (leaf, between) =
        chain.split_first().ok_or_else(|| rustls::Error::General("there is no certificate".to_owned()))?;
    verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::now())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    struct Authority(CertifiedIssuer<'static, KeyPair>);

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
        }

        /// Writes certificate, key and authority for this name.
        fn write(&self, dir: &Path, name: &str) -> TlsFiles {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new([name.to_owned()]).expect("a name");
            let cert = params.signed_by(&key, &self.0).expect("signed");
            let path = |file: &str| dir.join(file);
            std::fs::write(path("server.pem"), cert.pem()).expect("written");
            std::fs::write(path("server.key"), key.serialize_pem()).expect("written");
            std::fs::write(path("ca.pem"), self.0.pem()).expect("written");
            TlsFiles { cert: path("server.pem"), key: path("server.key"), ca: Some(path("ca.pem")) }
        }
    }

    fn shown(tls: &ServerTls) -> Vec<CertificateDer<'static>> {
        tls.current.pair().shown.cert.clone()
    }

    #[test]
    fn a_private_authority_is_shown_with_the_certificate() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::new();
        let files = authority.write(dir.path(), "cp.example");
        let tls = ServerTls::load(files.clone(), "cp.example").expect("loaded");
        assert_eq!(shown(&tls).last(), Some(authority.0.der()));
        assert_eq!(tls.private_ca().as_deref(), Some(authority.0.der().as_ref()));
        let public = ServerTls::load(TlsFiles { ca: None, ..files }, "anything").expect("loaded");
        assert_eq!((shown(&public).len(), public.private_ca()), (1, None));
    }

    #[test]
    fn what_nobody_could_connect_to_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Authority::new().write(dir.path(), "cp.example");
        let refused = |files: &TlsFiles, host| ServerTls::load(files.clone(), host).expect_err("refused");
        assert!(matches!(refused(&files, "other.example"), TlsFileError::Unfit { .. }));
        let key = TlsFiles { key: files.cert.clone(), ..files.clone() };
        assert!(matches!(refused(&key, "cp.example"), TlsFileError::Unreadable { what: "private key", .. }));
        let missing = TlsFiles { cert: dir.path().join("none.pem"), ..files.clone() };
        assert!(refused(&missing, "cp.example").to_string().contains("none.pem"));
        std::fs::write(&files.key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
        assert!(matches!(refused(&files, "cp.example"), TlsFileError::Pair { .. }));
        // Another authority signed the certificate.
        let other = tempfile::tempdir().expect("a directory");
        let ca = Authority::new().write(other.path(), "cp.example").ca;
        assert!(matches!(refused(&TlsFiles { ca, ..files }, "cp.example"), TlsFileError::Unfit { .. }));
    }

    #[test]
    fn a_new_pair_is_taken_and_half_of_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::new();
        let files = authority.write(dir.path(), "cp.example");
        let tls = ServerTls::load(files.clone(), "cp.example").expect("loaded");
        let first = shown(&tls);
        let key = std::fs::read(&files.key).expect("read");
        authority.write(dir.path(), "cp.example");
        let new_key = std::fs::read(&files.key).expect("read");
        std::fs::write(&files.key, key).expect("written");
        assert!(matches!(tls.reload(), Err(TlsFileError::Pair { .. })));
        assert_eq!(shown(&tls), first);
        std::fs::write(&files.key, new_key).expect("written");
        tls.reload().expect("reloaded");
        assert_ne!(shown(&tls), first);
    }
}
