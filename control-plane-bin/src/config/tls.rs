//! Where the certificate of the public listener lies.

use std::path::PathBuf;

use clap::Args;
use http_api::TlsFiles;
use serde::Deserialize;

use super::ConfigError;

/// The certificate of the public listener. Absent means that it speaks plain HTTP.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// PEM file of the certificate, and those between it and its authority. Reloaded when it changes.
    #[arg(long = "tls-cert", env = "CORECI_TLS_CERT", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long = "tls-key", env = "CORECI_TLS_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// PEM file of the authority that signed it, when that is a private one: enrolment commands then carry its SHA-256.
    #[arg(long = "tls-ca", env = "CORECI_TLS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl TlsSettings {
    pub(super) fn or(self, other: Self) -> Self {
        Self { cert: self.cert.or(other.cert), key: self.key.or(other.key), ca: self.ca.or(other.ca) }
    }

    pub(super) fn check(self) -> Result<Option<TlsFiles>, ConfigError> {
        match self {
            Self { cert: None, key: None, ca: None } => Ok(None),
            Self { cert: Some(cert), key: Some(key), ca } => Ok(Some(TlsFiles { cert, key, ca })),
            Self { .. } => Err(ConfigError::TlsIncomplete),
        }
    }
}
