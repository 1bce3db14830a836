//! The demo tenant and its admin key, made once and found again.

use identity::pg::{NewKey, key_create};
use identity::{ApiKey, AuthError, Authenticator, Role};
use mcp_core::id::TenantId;
use mcp_core::secret::SecretValue;
use tenancy::Tenancy;
use tenancy::stores::tenant::tenant_create;

use crate::cli::OPERATOR;
use crate::data_dir::DataDir;

const SLUG: &str = "demo";
/// The file below the data directory that keeps the key.
pub(crate) const KEY_FILE: &str = "keys/demo-admin.key";

/// A tenant to try things in.
pub(super) struct Demo {
    pub(super) tenant: TenantId,
    pub(super) key: SecretValue,
}

impl Demo {
    pub(super) async fn prepare(tenancy: &Tenancy, data: &DataDir) -> anyhow::Result<Self> {
        let tenant = match tenancy.lookup().tenant_by_slug(SLUG).await? {
            Some(tenant) => tenant,
            None => tenant_create(tenancy, SLUG, "Demo", OPERATOR).await?.tenant_id,
        };
        if let Some(key) = kept_key(tenancy, tenant, data).await? {
            return Ok(Self { tenant, key });
        }
        let key = ApiKey::generate().map_err(|_| anyhow::anyhow!("the system's random generator failed"))?;
        // A name of its own, so that a key whose file was lost does not stand in the way.
        let name = format!("demo-admin-{}", ulid::Ulid::generate().to_string().to_lowercase());
        let new = NewKey { name: &name, role: Role::Admin, expires_at: None, tools: None, targets: None };
        let tx = tenancy.tx(tenant).await?;
        key_create(&tx, &key, &new, None).await?;
        // The file first: a key that nobody knows is worse than a file whose key was never made.
        data.private_dir("keys")?;
        data.write_text(KEY_FILE, key.reveal())?;
        tx.commit().await?;
        Ok(Self { tenant, key: SecretValue::new(key.reveal().to_owned()) })
    }
}

/// The key that an earlier run left, if it is still good for the demo tenant.
async fn kept_key(
    tenancy: &Tenancy,
    tenant: TenantId,
    data: &DataDir,
) -> anyhow::Result<Option<SecretValue>> {
    let Some(key) = data.read_text(KEY_FILE)? else { return Ok(None) };
    match Authenticator::new(tenancy.clone()).authenticate(key.trim()).await {
        Ok(principal) if principal.tenant == tenant && principal.role == Role::Admin.as_str() => {
            Ok(Some(SecretValue::new(key.trim().to_owned())))
        }
        Ok(_) | Err(AuthError::Unauthenticated) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
