//! Secrets: the reference travels, the value does not (INV-3).

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::id::TenantId;

/// Where a secret lies, such as `local:proxmox:pve-1`. Safe to store; hashed before it reaches an audit row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretRef(String);

impl SecretRef {
    /// Wraps a reference that a provider handed out.
    #[must_use]
    pub fn new(reference: impl Into<String>) -> Self {
        Self(reference.into())
    }

    /// The reference as text, for storage.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The secret itself. It prints as `[REDACTED]`, has no serialised form and is wiped when dropped.
#[derive(Clone)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Takes ownership of a secret.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The secret in the clear. Call this only where it enters a request or a store.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// In a time that does not depend on where two secrets of one length differ (CASES C-J12).
impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SecretValue {}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl fmt::Display for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// Why a secret could not be had. Every variant is 503 `secret_unavailable` to a caller.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// This tenant has no secret of that name. Another tenant's secret looks the same.
    #[error("no such secret")]
    NotFound,
    /// The provider cannot be reached or cannot decrypt.
    #[error("the secret provider is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Keeps the secrets of tenants. Names are unique within a tenant; nobody can list or read them over an API.
///
/// Dropping a future of `put` or `delete` may leave either the old or the new state, never half of one.
#[async_trait]
pub trait SecretProvider: Send + Sync {
    /// Stores a secret under a name, replacing an older value, and answers with its reference.
    async fn put(&self, tenant: TenantId, name: &str, value: SecretValue) -> Result<SecretRef, SecretError>;

    /// Reads a secret of this tenant.
    async fn get(&self, tenant: TenantId, reference: &SecretRef) -> Result<SecretValue, SecretError>;

    /// Destroys a secret of this tenant. A secret that is not there is no error.
    async fn delete(&self, tenant: TenantId, reference: &SecretRef) -> Result<(), SecretError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-J02
    #[test]
    fn no_formatting_shows_the_secret() {
        let secret = SecretValue::new("cck_canary".to_owned());
        for text in [format!("{secret}"), format!("{secret:?}"), format!("{:#?}", Some(&secret))] {
            assert!(!text.contains("canary"), "{text}");
        }
    }
}
