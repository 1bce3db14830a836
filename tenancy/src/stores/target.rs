//! Targets: what can be looked at.

use mcp_core::id::TargetId;
use mcp_core::tool::AdapterKind;
use time::OffsetDateTime;
use tokio_postgres::Row;

use crate::error::TenancyError;
use crate::tx::TenantTx;

/// One target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub target_id: TargetId,
    /// How it is reached.
    pub kind: AdapterKind,
    /// Its name, unique among the tenant's present targets.
    pub name: String,
    /// What it calls itself, as reported by its agent.
    pub hostname: Option<String>,
    /// Its operating system, as reported.
    pub os: Option<String>,
    /// The agent's version, as reported.
    pub version: Option<String>,
    /// Its address, as reported. Never dialled.
    pub ip: Option<String>,
    /// When it was last heard of.
    pub last_seen_at: Option<OffsetDateTime>,
    /// When it was added.
    pub created_at: OffsetDateTime,
}

/// A target by either of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetRef<'a> {
    /// By id.
    Id(TargetId),
    /// By name.
    Name(&'a str),
}

impl<'a> From<&'a str> for TargetRef<'a> {
    /// Text that is a UUID means an id, anything else a name.
    fn from(text: &'a str) -> Self {
        text.parse().map_or(Self::Name(text), Self::Id)
    }
}

/// Where a page of targets ends: the name and id of its last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCursor {
    /// The last row's name.
    pub name: String,
    /// The last row's id.
    pub target_id: TargetId,
}

/// A page of present targets in the order of (name, id), after `after`.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn target_list(
    tx: &TenantTx,
    after: Option<&TargetCursor>,
    limit: u32,
) -> Result<Vec<Target>, TenancyError> {
    let sql = "select target_id, kind, name, hostname, os, version, ip, last_seen_at, created_at from targets \
               where tenant_id = $1 and removed_at is null \
                 and ($2::text is null or (name, target_id) > ($2, $3::uuid)) \
               order by name, target_id limit $4";
    let name = after.map(|cursor| cursor.name.as_str());
    let id = after.map(|cursor| cursor.target_id.as_uuid());
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &name, &id, &i64::from(limit)]).await?;
    rows.iter().map(target_from).collect()
}

/// The present targets of one kind: the one of this id or name, or all when none is wanted, by name.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn target_find(
    tx: &TenantTx,
    kind: AdapterKind,
    wanted: Option<&str>,
    limit: u32,
) -> Result<Vec<Target>, TenancyError> {
    let sql = "select target_id, kind, name, hostname, os, version, ip, last_seen_at, created_at from targets \
               where tenant_id = $1 and kind = $2 and removed_at is null \
                 and ($3::text is null or name = $3 or target_id::text = $3) order by name, target_id limit $4";
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &kind.as_str(), &wanted, &i64::from(limit)]).await?;
    rows.iter().map(target_from).collect()
}

/// A present target.
///
/// # Errors
/// [`TenancyError::NotFound`], also for another tenant's target.
pub async fn target_get(tx: &TenantTx, target: TargetRef<'_>) -> Result<Target, TenancyError> {
    let by_id = "select target_id, kind, name, hostname, os, version, ip, last_seen_at, created_at from targets \
                 where tenant_id = $1 and target_id = $2 and removed_at is null";
    let by_name = "select target_id, kind, name, hostname, os, version, ip, last_seen_at, created_at from targets \
                   where tenant_id = $1 and name = $2 and removed_at is null";
    let tenant = tx.tenant().as_uuid();
    let row = match target {
        TargetRef::Id(id) => tx.query_one(by_id, &[&tenant, &id.as_uuid()]).await?,
        TargetRef::Name(name) => tx.query_one(by_name, &[&tenant, &name]).await?,
    };
    target_from(&row)
}

/// Adds a target that needs no agent.
///
/// # Errors
/// [`TenancyError::Conflict`] when the tenant has a present target of that name; [`TenancyError::Invalid`] for a bad name.
pub async fn target_create(
    tx: &TenantTx,
    target_id: TargetId,
    kind: AdapterKind,
    name: &str,
) -> Result<Target, TenancyError> {
    let sql = "insert into targets (tenant_id, target_id, kind, name) values ($1, $2, $3, $4) \
               returning target_id, kind, name, hostname, os, version, ip, last_seen_at, created_at";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&tx.tenant().as_uuid(), &target_id.as_uuid(), &kind.as_str(), &name];
    target_from(&tx.query_one(sql, &params).await?)
}

/// Marks a target as removed and frees its name. The row stays, for the audit trail. The event is the caller's to put into
/// the outbox (`adapter.removed`, `relay.revoked`): only the caller knows what the removal means.
///
/// # Errors
/// [`TenancyError::NotFound`] when there is no such present target.
pub async fn target_remove(tx: &TenantTx, target: TargetId) -> Result<(), TenancyError> {
    let sql = "update targets set removed_at = now() \
               where tenant_id = $1 and target_id = $2 and removed_at is null";
    match tx.execute(sql, &[&tx.tenant().as_uuid(), &target.as_uuid()]).await? {
        0 => Err(TenancyError::NotFound),
        _ => Ok(()),
    }
}

fn target_from(row: &Row) -> Result<Target, TenancyError> {
    Ok(Target {
        target_id: TargetId::from_uuid(row.try_get(0)?),
        kind: kind_from(row.try_get(1)?)?,
        name: row.try_get(2)?,
        hostname: row.try_get(3)?,
        os: row.try_get(4)?,
        version: row.try_get(5)?,
        ip: row.try_get(6)?,
        last_seen_at: row.try_get(7)?,
        created_at: row.try_get(8)?,
    })
}

fn kind_from(word: &str) -> Result<AdapterKind, TenancyError> {
    AdapterKind::parse(word)
        .ok_or_else(|| TenancyError::Internal("a stored target is of an unknown kind".into()))
}
