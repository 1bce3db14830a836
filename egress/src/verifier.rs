//! How a certificate is judged inside the handshake, so that nothing is sent to a host that fails.

use std::fmt;
use std::sync::{Arc, LazyLock};

use ring::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use subtle::ConstantTimeEq;

use crate::error::EgressError;
use crate::trust::{TlsTrust, TrustError, hex, roots};

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(provider::default_provider()));

/// Read once: the set is large, and does not change while we run.
static SYSTEM_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        tracing::warn!(
            "this system has no certificate authorities, so no host is trusted that is not pinned"
        );
    }
    Arc::new(roots)
});

/// What TLS is spoken with one upstream.
pub(crate) fn client_config(trust: &TlsTrust) -> Result<ClientConfig, TrustError> {
    let judge = match trust {
        TlsTrust::System => Judge::Authorities(web_pki(Arc::clone(&SYSTEM_ROOTS))),
        TlsTrust::CaPem(pem) => Judge::Authorities(web_pki(Arc::new(roots(pem)?))),
        TlsTrust::LeafSha256(pin) => Judge::Leaf(*pin),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|_| TrustError::NotCertificates)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { judge }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session skips the judgement, and would outlive a changed certificate.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// None without authorities: then nobody is trusted.
fn web_pki(roots: Arc<RootCertStore>) -> Option<Arc<WebPkiServerVerifier>> {
    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER)).build().ok()
}

/// What the handshake's failure was, as far as it is ours to tell.
pub(crate) fn handshake_error(error: &std::io::Error) -> EgressError {
    let verdict =
        error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).and_then(|error| match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
                inner.downcast_ref::<Rejected>()
            }
            _ => None,
        });
    match verdict {
        Some(Rejected { fingerprint, pinned: true }) => {
            EgressError::PinMismatch { presented: fingerprint.clone() }
        }
        Some(Rejected { fingerprint, pinned: false }) => {
            EgressError::TlsUntrusted { fingerprint: fingerprint.clone() }
        }
        None => EgressError::TlsHandshake,
    }
}

#[derive(Debug)]
struct Verifier {
    judge: Judge,
}

enum Judge {
    Authorities(Option<Arc<WebPkiServerVerifier>>),
    Leaf([u8; 32]),
}

/// Carries the fingerprint out of the handshake, through the error of the TLS library.
#[derive(Debug, thiserror::Error)]
#[error("the certificate was rejected")]
struct Rejected {
    fingerprint: String,
    pinned: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = digest::digest(&digest::SHA256, end_entity);
        let trusted = match &self.judge {
            Judge::Leaf(pin) => bool::from(presented.as_ref().ct_eq(pin)),
            Judge::Authorities(None) => false,
            Judge::Authorities(Some(web_pki)) => {
                web_pki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).is_ok()
            }
        };
        if trusted {
            return Ok(ServerCertVerified::assertion());
        }
        let pinned = matches!(self.judge, Judge::Leaf(_));
        let rejected = Rejected { fingerprint: hex(presented.as_ref()), pinned };
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(rejected)))))
    }

    // A certificate is public: without these, whoever copies the pinned one passes for its owner.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &PROVIDER.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &PROVIDER.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authorities(_) => "Authorities",
            Self::Leaf(_) => "Leaf",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container without certificates.
    // proves: C-I01
    #[test]
    fn without_authorities_nobody_is_trusted() {
        let judge = Judge::Authorities(web_pki(Arc::new(RootCertStore::empty())));
        let shown = CertificateDer::from(vec![0x30, 0]);
        let name = ServerName::try_from("host.example").unwrap();
        let verdict =
            Verifier { judge }.verify_server_cert(&shown, &[], &name, &[], UnixTime::now()).unwrap_err();
        let error = handshake_error(&std::io::Error::new(std::io::ErrorKind::InvalidData, verdict));
        let EgressError::TlsUntrusted { fingerprint } = error else { panic!("{error:?}") };
        assert_eq!(fingerprint, hex(digest::digest(&digest::SHA256, &[0x30, 0]).as_ref()));
    }
}
