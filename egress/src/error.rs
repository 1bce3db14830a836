//! Why a request brought no response.

use crate::refusal::Refusal;

/// Why a request brought no response. Neither `Display` nor `Debug` holds a URL, a header or a word of the upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The guard refused before anything was dialled. Final.
    #[error("the egress policy refuses: {0}")]
    Refused(#[from] Refusal),
    /// The name has no address.
    #[error("{}", if *retryable { "the name could not be resolved just now" } else { "the name has no address" })]
    Dns {
        /// Whether the resolver failed, rather than said no.
        retryable: bool,
    },
    /// No address took the connection.
    #[error("the host does not take connections")]
    Connect,
    /// The TLS handshake failed for another reason than the certificate.
    #[error("the TLS handshake failed")]
    TlsHandshake,
    /// The certificate does not lead to a trusted authority, is out of date, or is for another name.
    #[error("the certificate is not trusted; its SHA-256 fingerprint is {fingerprint}")]
    TlsUntrusted {
        /// SHA-256 of the certificate (DER), lower-case hex.
        fingerprint: String,
    },
    /// The certificate is another one than the pinned one. No byte of the request was sent.
    #[error("the certificate is not the pinned one; its SHA-256 fingerprint is {presented}")]
    PinMismatch {
        /// SHA-256 of the certificate (DER), lower-case hex.
        presented: String,
    },
    /// The time of the dial, the handshake or the whole call ran out.
    #[error("the upstream did not answer in time")]
    Timeout,
    /// The body is larger than 4 MiB.
    #[error("the answer is larger than 4 MiB")]
    TooLarge,
    /// The connection broke, or what came is not HTTP.
    #[error("the exchange broke: {0}")]
    Broken(&'static str),
    /// The request cannot be sent as it is.
    #[error("the request is not valid: {0}")]
    Request(&'static str),
}
