//! How an adapter is configured, and the port that turns a configuration into an adapter.
//!
//! Only the binaries know concrete adapters; whoever stores or changes configurations asks the factory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::{CheckStep, UpstreamAdapter};
use crate::error::ErrorCode;
use crate::secret::SecretValue;
use crate::tool::AdapterKind;

/// A configuration without its credential. Safe to store and to show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterConfig {
    /// Which upstream.
    #[serde(rename = "type")]
    pub kind: AdapterKind,
    /// Where it is; the public service of its kind when absent, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Whose certificate is believed.
    #[serde(default)]
    pub tls: TlsSetting,
    /// What only this kind knows.
    #[serde(default)]
    pub options: Map<String, Value>,
}

/// Whose certificate is believed. There is no setting that believes any certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum TlsSetting {
    /// Those that the system's roots vouch for. It has braces so that a stray field beside it is refused, too.
    System {},
    /// Those that this certificate authority vouches for.
    CaPem {
        /// One or more certificates in PEM.
        ca_pem: String,
    },
    /// This one.
    Sha256Pin {
        /// SHA-256 of the certificate, hexadecimal, colons allowed.
        sha256: String,
    },
}

impl Default for TlsSetting {
    fn default() -> Self {
        Self::System {}
    }
}

/// Why a configuration makes no adapter: a step of its check that failed before anything was dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", step.message)]
pub struct ConfigRefused {
    /// The stable code.
    pub code: ErrorCode,
    /// The step.
    pub step: CheckStep,
}

/// Turns configurations into adapters.
pub trait AdapterFactory: Send + Sync {
    /// Builds an adapter. Nothing is dialled. Each configuration gets one of its own, so that no two tenants share a
    /// connection.
    ///
    /// # Errors
    /// [`ConfigRefused`] when the URL, the trust or an option is not acceptable.
    fn build(&self, config: &AdapterConfig) -> Result<Arc<dyn UpstreamAdapter>, ConfigRefused>;

    /// Checks the form of a credential.
    ///
    /// # Errors
    /// [`ConfigRefused`] when no upstream of this kind takes a credential of that form.
    fn check_credential(&self, kind: AdapterKind, credential: &SecretValue) -> Result<(), ConfigRefused>;

    /// The host and port that a configuration would send its credential to; none when its URL is not acceptable. When it
    /// changes, the credential must be entered again.
    fn destination(&self, config: &AdapterConfig) -> Option<String>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves: AD-06, X2-06
    #[test]
    fn no_setting_believes_any_certificate() {
        let read = |tls: Value| serde_json::from_value::<TlsSetting>(tls);
        assert_eq!(read(json!({"mode": "system"})).expect("read"), TlsSetting::System {});
        assert!(read(json!({"mode": "sha256_pin", "sha256": "ab"})).is_ok());
        for tls in [
            json!({"mode": "none"}),
            json!({"mode": "insecure"}),
            json!({"mode": "system", "insecure": true}),
            json!({"mode": "sha256_pin"}),
        ] {
            assert!(read(tls.clone()).is_err(), "{tls}");
        }
    }
}
