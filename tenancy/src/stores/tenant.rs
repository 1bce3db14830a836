//! Tenants.

use std::str::FromStr;

use mcp_core::id::TenantId;
use serde_json::json;
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::TenancyError;
use crate::outbox::{new_event_id, outbox_put};
use crate::pool::Tenancy;
use crate::tx::TenantTx;

/// One tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its id.
    pub tenant_id: TenantId,
    /// Its short name in URLs and commands: lower-case letters, digits and hyphens. Never given to another tenant.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// Whether it may be used.
    pub status: TenantStatus,
    /// When it was created.
    pub created_at: OffsetDateTime,
}

/// Whether a tenant may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TenantStatus {
    /// In use.
    Active,
    /// Switched off for now; nothing is lost.
    Suspended,
    /// Gone for good; only its audit chain remains of interest.
    Deleted,
}

impl TenantStatus {
    /// The word in the database and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Deleted => "deleted",
        }
    }

    /// What the audit log calls the change to this status.
    fn event_type(self) -> &'static str {
        match self {
            Self::Active => "tenant.resumed",
            Self::Suspended => "tenant.suspended",
            Self::Deleted => "tenant.deleted",
        }
    }
}

impl FromStr for TenantStatus {
    type Err = TenancyError;

    fn from_str(word: &str) -> Result<Self, TenancyError> {
        match word {
            "active" => Ok(Self::Active),
            "suspended" => Ok(Self::Suspended),
            "deleted" => Ok(Self::Deleted),
            _ => Err(TenancyError::Invalid(None)),
        }
    }
}

/// Creates a tenant with a fresh id, and its event `tenant.created`.
///
/// # Errors
/// [`TenancyError::Conflict`] when the slug is taken, by a deleted tenant too; [`TenancyError::Invalid`] for a bad slug or
/// name.
///
/// # Cancellation
/// All or nothing.
pub async fn tenant_create(
    tenancy: &Tenancy,
    slug: &str,
    name: &str,
    actor: &str,
) -> Result<Tenant, TenancyError> {
    let tx = tenancy.tx(TenantId::from_uuid(Uuid::new_v4())).await?;
    // A unique constraint over all tenants would be an oracle, so the slug is checked under a lock that creators share.
    // The lock comes in its own statement: the lookup must see what was committed while we waited.
    tx.execute("select pg_advisory_xact_lock(hashtextextended('coreci tenant slug', 0))", &[]).await?;
    if tx.query_opt("select lookup_tenant_by_slug($1) limit 1", &[&slug]).await?.is_some() {
        return Err(TenancyError::Conflict { constraint: Some("tenants_slug".to_owned()) });
    }
    let sql = "insert into tenants (tenant_id, slug, name) values ($1, $2, $3) \
               returning tenant_id, slug, name, status, created_at";
    let row = tx.query_one(sql, &[&tx.tenant().as_uuid(), &slug, &name]).await?;
    outbox_put(&tx, new_event_id(), "tenant.created", &json!({ "actor": actor, "slug": slug })).await?;
    let tenant = tenant_from(&row)?;
    tx.commit().await?;
    Ok(tenant)
}

/// All tenants, ordered by slug. Reads each one in a transaction of its own: nothing sees two tenants at once.
///
/// # Errors
/// As [`Tenancy::tx`] and [`TenantTx::query`].
pub async fn tenant_list(tenancy: &Tenancy) -> Result<Vec<Tenant>, TenancyError> {
    let mut tenants = Vec::new();
    for tenant in tenancy.lookup().tenants().await? {
        let tx = tenancy.tx(tenant).await?;
        tenants.push(tenant_get(&tx).await?);
        tx.commit().await?;
    }
    tenants.sort_by(|a, b| a.slug.cmp(&b.slug));
    Ok(tenants)
}

/// The transaction's own tenant.
///
/// # Errors
/// [`TenancyError::NotFound`] when it does not exist.
pub async fn tenant_get(tx: &TenantTx) -> Result<Tenant, TenancyError> {
    let sql = "select tenant_id, slug, name, status, created_at from tenants where tenant_id = $1";
    tenant_from(&tx.query_one(sql, &[&tx.tenant().as_uuid()]).await?)
}

/// Changes the status and puts `tenant.suspended`, `tenant.resumed` or `tenant.deleted` into the outbox. Setting the
/// status it has already changes nothing and leaves no event.
///
/// # Errors
/// [`TenancyError::NotFound`] when there is no such tenant, or it is deleted: that is final.
pub async fn tenant_set_status(
    tx: &TenantTx,
    status: TenantStatus,
    actor: &str,
) -> Result<Tenant, TenancyError> {
    let current = "select tenant_id, slug, name, status, created_at from tenants \
                   where tenant_id = $1 and status <> 'deleted' for update";
    let tenant = tenant_from(&tx.query_one(current, &[&tx.tenant().as_uuid()]).await?)?;
    if tenant.status == status {
        return Ok(tenant);
    }
    let sql = "update tenants set status = $2 where tenant_id = $1";
    tx.execute(sql, &[&tx.tenant().as_uuid(), &status.as_str()]).await?;
    let body = json!({ "actor": actor, "slug": tenant.slug });
    outbox_put(tx, new_event_id(), status.event_type(), &body).await?;
    Ok(Tenant { status, ..tenant })
}

fn tenant_from(row: &Row) -> Result<Tenant, TenancyError> {
    Ok(Tenant {
        tenant_id: TenantId::from_uuid(row.try_get(0)?),
        slug: row.try_get(1)?,
        name: row.try_get(2)?,
        status: row.try_get::<_, &str>(3)?.parse()?,
        created_at: row.try_get(4)?,
    })
}
