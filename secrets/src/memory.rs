//! Secrets that last as long as the process.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;
use mcp_core::id::TenantId;
use mcp_core::secret::{SecretError, SecretProvider, SecretRef, SecretValue};

/// Keeps the secrets of tenants in memory, for embedding and tests. References look like `memory:<name>`.
#[derive(Debug, Default)]
pub struct MemorySecrets {
    values: RwLock<HashMap<(TenantId, SecretRef), SecretValue>>,
}

#[async_trait]
impl SecretProvider for MemorySecrets {
    async fn put(&self, tenant: TenantId, name: &str, value: SecretValue) -> Result<SecretRef, SecretError> {
        let reference = SecretRef::new(format!("memory:{name}"));
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.insert((tenant, reference.clone()), value);
        Ok(reference)
    }

    async fn get(&self, tenant: TenantId, reference: &SecretRef) -> Result<SecretValue, SecretError> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.get(&(tenant, reference.clone())).cloned().ok_or(SecretError::NotFound)
    }

    async fn delete(&self, tenant: TenantId, reference: &SecretRef) -> Result<(), SecretError> {
        self.values.write().unwrap_or_else(PoisonError::into_inner).remove(&(tenant, reference.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn tenant(n: u128) -> TenantId {
        TenantId::from_uuid(Uuid::from_u128(n))
    }

    // proves: SE-04
    #[tokio::test]
    async fn another_tenants_secret_is_not_there() {
        let secrets = MemorySecrets::default();
        let token = SecretValue::new("s3cret".to_owned());
        let reference = secrets.put(tenant(1), "proxmox:pve-1", token.clone()).await.expect("stored");

        assert_eq!(secrets.get(tenant(1), &reference).await.ok(), Some(token));
        assert!(matches!(secrets.get(tenant(2), &reference).await, Err(SecretError::NotFound)));
        secrets.delete(tenant(2), &reference).await.expect("no error");
        assert!(secrets.get(tenant(1), &reference).await.is_ok(), "another tenant cannot delete it");
        secrets.delete(tenant(1), &reference).await.expect("deleted");
        assert!(matches!(secrets.get(tenant(1), &reference).await, Err(SecretError::NotFound)));
    }
}
