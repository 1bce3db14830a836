//! Whom the agent believes that the control plane is the control plane.
//!
//! Either the authorities of this host, or one authority of the operator's own, known by its file or by the SHA-256 of its
//! certificate alone. A server's own certificate is never what is trusted: it changes every few months, and an agent that
//! held on to it would be locked out.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

/// The authorities that an agent trusts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those of this host.
    #[default]
    System,
    /// Those in this PEM file, and no others. Read at each start of the agent.
    CaFile(PathBuf),
    /// The one whose certificate has this SHA-256, and no other. The control plane sends the certificate along.
    CaSha256(CaSha256),
}

/// The SHA-256 of an authority's certificate (DER), written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaSha256([u8; 32]);

/// The text is no SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 is 64 hexadecimal digits")]
pub struct NotSha256;

impl FromStr for CaSha256 {
    type Err = NotSha256;

    fn from_str(text: &str) -> Result<Self, NotSha256> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotSha256);
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| NotSha256)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for CaSha256 {
    type Error = NotSha256;

    fn try_from(text: String) -> Result<Self, NotSha256> {
        text.parse()
    }
}

impl From<CaSha256> for String {
    fn from(hash: CaSha256) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for CaSha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CaSha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl CaSha256 {
    fn is_of(self, certificate: &CertificateDer<'_>) -> bool {
        digest(&SHA256, certificate).as_ref() == self.0
    }
}

/// The trust cannot be put to use.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// No certificate authorities were found (on Debian: install `ca-certificates`).
    #[error("this host trusts no certificate authorities; install the package ca-certificates")]
    NoRoots,
    /// The authority's file cannot be read, or holds no certificate.
    #[error("{path} is no PEM file with the certificate of an authority: {source}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

impl Trust {
    /// TLS settings that accept servers of these authorities only.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TrustError> {
        // The provider is named, not installed: a process-wide default would be a global that the host program owns.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Setup)?;
        let builder = match self {
            Self::System => builder.with_root_certificates(system_roots()?),
            Self::CaFile(path) => builder.with_root_certificates(roots_in(path)?),
            Self::CaSha256(hash) => {
                let pinned = PinnedAuthority { hash: *hash, provider };
                // Called dangerous because it can do less than the usual check. Ours does all of it, with one root.
                builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned))
            }
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn system_roots() -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    // Authorities that cannot be parsed are left out, as every TLS client does; trusting fewer is safe.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TrustError::NoRoots) } else { Ok(roots) }
}

fn roots_in(path: &PathBuf) -> Result<RootCertStore, TrustError> {
    let unreadable = |source| TrustError::CaFile { path: path.clone(), source };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        roots.add(certificate.map_err(unreadable)?).map_err(TrustError::Setup)?;
    }
    if roots.is_empty() { Err(unreadable(rustls::pki_types::pem::Error::NoItemsFound)) } else { Ok(roots) }
}

/// Finds the pinned authority among the certificates that the server sends, and checks the server's own against it: name,
/// dates and signatures, as with any other root.
#[derive(Debug)]
struct PinnedAuthority {
    hash: CaSha256,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authority = intermediates.iter().find(|sent| self.hash.is_of(sent));
        let authority = authority
            .ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?
            .clone()
            .into_owned();
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_written_as_it_is_read() {
        let text = "0123456789abcdef".repeat(4);
        let hash: CaSha256 = text.parse().unwrap();
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(hash));
        for bad in ["", "00", &text[1..], &format!("{text}0"), &text.replace('0', "g"), &"é".repeat(32)] {
            assert_eq!(bad.parse::<CaSha256>(), Err(NotSha256), "{bad}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let refused = |path: PathBuf| Trust::CaFile(path).client_config().unwrap_err().to_string();
        assert!(refused(path.clone()).contains("ca.pem"));
        std::fs::write(&path, "junk").unwrap();
        assert!(refused(path).contains("no PEM file"));
    }
}
