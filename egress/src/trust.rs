//! Whom to believe.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// How the certificate of a host is judged. There is no way to accept any.
#[derive(Clone, PartialEq, Eq)]
pub enum TlsTrust {
    /// The authorities that the operating system trusts.
    System,
    /// Only these authorities: one or more certificates in PEM. Made by [`TlsTrust::ca_pem`].
    CaPem(String),
    /// Only this certificate, whatever names, dates and authorities it has: SHA-256 of the DER of the leaf.
    LeafSha256([u8; 32]),
}

/// Why a text is no trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// More than 64 KiB.
    #[error("the certificates are larger than 64 KiB")]
    TooLarge,
    /// A private key is in it. It is no use here, and should be replaced, now that it has been sent somewhere.
    #[error("a private key is among the certificates; send certificates only, and replace that key")]
    PrivateKey,
    /// No certificate in it, or something that is none.
    #[error("this is not one or more certificates in PEM")]
    NotCertificates,
    /// Not 32 bytes in hexadecimal.
    #[error("a SHA-256 fingerprint has 64 hexadecimal digits, with or without colons")]
    NotAFingerprint,
}

/// A bundle of a company's authorities is a few KiB.
const MAX_PEM_BYTES: usize = 64 * 1024;

impl TlsTrust {
    /// Reads certificates of authorities that a customer sent. Nothing of the text is in an error.
    ///
    /// # Errors
    /// [`TrustError::TooLarge`], [`TrustError::PrivateKey`] and [`TrustError::NotCertificates`].
    pub fn ca_pem(text: &str) -> Result<Self, TrustError> {
        if text.len() > MAX_PEM_BYTES {
            return Err(TrustError::TooLarge);
        }
        if text.to_ascii_uppercase().contains("PRIVATE KEY") {
            return Err(TrustError::PrivateKey);
        }
        roots(text)?;
        Ok(Self::CaPem(text.to_owned()))
    }

    /// Reads the SHA-256 fingerprint of a certificate, in hexadecimal, with or without colons.
    ///
    /// # Errors
    /// [`TrustError::NotAFingerprint`].
    pub fn pin(hex: &str) -> Result<Self, TrustError> {
        let digits = if hex.contains(':') {
            let pairs: Vec<&str> = hex.trim().split(':').collect();
            if pairs.iter().any(|pair| pair.len() != 2) {
                return Err(TrustError::NotAFingerprint);
            }
            pairs.concat()
        } else {
            hex.trim().to_owned()
        };
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(TrustError::NotAFingerprint);
        }
        let mut pin = [0; 32];
        for (byte, pair) in pin.iter_mut().zip(0..) {
            *byte = u8::from_str_radix(&digits[2 * pair..2 * pair + 2], 16)
                .map_err(|_| TrustError::NotAFingerprint)?;
        }
        Ok(Self::LeafSha256(pin))
    }
}

/// The authorities in a PEM text: at least one, and nothing between the marks that is not a certificate.
pub(crate) fn roots(pem: &str) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| TrustError::NotCertificates)?;
        roots.add(certificate).map_err(|_| TrustError::NotCertificates)?;
    }
    if roots.is_empty() { Err(TrustError::NotCertificates) } else { Ok(roots) }
}

/// Fingerprints are public, and useful to see.
impl fmt::Debug for TlsTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::CaPem(_) => f.write_str("CaPem"),
            Self::LeafSha256(pin) => write!(f, "LeafSha256({})", hex(pin)),
        }
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-I07
    #[test]
    fn only_certificates_are_authorities() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(["ca".to_owned()]).unwrap().self_signed(&key).unwrap();
        let pem = certificate.pem();

        assert_eq!(TlsTrust::ca_pem(&pem), Ok(TlsTrust::CaPem(pem.clone())));
        assert!(TlsTrust::ca_pem(&format!("# our CA\n{pem}\n{pem}")).is_ok());
        for (text, error) in [
            (String::new(), TrustError::NotCertificates),
            ("junk".into(), TrustError::NotCertificates),
            (pem[..pem.len() / 2].into(), TrustError::NotCertificates),
            (pem.replace("CERTIFICATE", "PUBLIC KEY"), TrustError::NotCertificates),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
                TrustError::NotCertificates,
            ),
            (format!("{pem}{}", key.serialize_pem()), TrustError::PrivateKey),
            (format!("{pem}{}", key.serialize_pem().to_lowercase()), TrustError::PrivateKey),
            (" ".repeat(10 << 20), TrustError::TooLarge),
        ] {
            assert_eq!(TlsTrust::ca_pem(&text), Err(error));
        }
    }

    #[test]
    fn a_pin_is_32_bytes_in_hexadecimal() {
        let plain = "00ff".repeat(16);
        let pairs: Vec<&str> = (0..32).map(|at| &plain[2 * at..2 * at + 2]).collect();
        let mut pin = [0; 32];
        pin.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = 0xff);
        for text in [plain.clone(), plain.to_uppercase(), pairs.join(":"), format!(" {}\n", pairs.join(":"))]
        {
            assert_eq!(TlsTrust::pin(&text), Ok(TlsTrust::LeafSha256(pin)), "{text}");
        }
        for text in [
            "",
            "00ff",
            &plain[1..],
            &format!("{plain}00"),
            &plain.replace('f', "g"),
            &"é".repeat(32),
            &format!(":{plain}"),
            &format!("{}+f", &plain[2..]),
        ] {
            assert_eq!(TlsTrust::pin(text), Err(TrustError::NotAFingerprint), "{text}");
        }
        assert!(hex(&pin).starts_with("00ff00ff"));
    }
}
