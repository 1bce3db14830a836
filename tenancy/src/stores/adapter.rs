//! Configured adapters. Each is a target, too: the two rows come and go together.

use std::collections::HashMap;

use mcp_core::id::TargetId;
use mcp_core::secret::SecretRef;
use mcp_core::tool::AdapterKind;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio_postgres::Row;

use crate::error::TenancyError;
use crate::outbox::{new_event_id, outbox_put};
use crate::stores::target::{TargetCursor, target_create, target_remove};
use crate::tx::TenantTx;

/// What the last check of an adapter found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Everything is as it should be.
    Ok,
    /// Usable, but something will be missing.
    Partial,
    /// The last check failed.
    Failed,
    /// Saved without a check, on an admin's word.
    NeverVerified,
}

impl Validation {
    /// Every one.
    pub const ALL: &'static [Self] = &[Self::Ok, Self::Partial, Self::Failed, Self::NeverVerified];

    /// The word in the database and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::NeverVerified => "never_verified",
        }
    }
}

/// One configured adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its id, which is the target's.
    pub target_id: TargetId,
    /// Its name, which is the target's.
    pub name: String,
    /// Which upstream.
    pub kind: AdapterKind,
    /// Base URL, trust and options.
    pub config: Value,
    /// Where its credential lies.
    pub secret_ref: SecretRef,
    /// What the last check found.
    pub validated: Validation,
    /// What the upstream said of itself.
    pub facts: Value,
    /// Rises with every change.
    pub config_version: u64,
    /// When it was last checked.
    pub checked_at: Option<OffsetDateTime>,
    /// When it was configured.
    pub created_at: OffsetDateTime,
}

/// What a check found, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The verdict.
    pub validated: Validation,
    /// What the upstream said of itself.
    pub facts: Value,
}

/// An adapter to be configured.
#[derive(Debug, Clone)]
pub struct NewAdapter<'a> {
    /// Its id.
    pub target_id: TargetId,
    /// Its name.
    pub name: &'a str,
    /// Which upstream.
    pub kind: AdapterKind,
    /// Base URL, trust and options.
    pub config: &'a Value,
    /// Where its credential lies.
    pub secret_ref: &'a SecretRef,
    /// What the check found.
    pub checked: &'a Checked,
}

/// The columns that [`adapter_from`] reads, from the present adapters of one tenant.
macro_rules! select_adapters {
    ($rest:literal) => {
        concat!(
            "select a.target_id, t.name, a.adapter_type, a.config, a.secret_ref, a.validated, a.facts, \
             a.config_version, a.checked_at, a.created_at \
             from mcp_adapters a join targets t on t.tenant_id = a.tenant_id and t.target_id = a.target_id \
             where a.tenant_id = $1 and t.removed_at is null ",
            $rest
        )
    };
}

/// Adds an adapter and its target, with the event `adapter.configured`.
///
/// # Errors
/// [`TenancyError::Conflict`] when the tenant has a present target of that name; [`TenancyError::Invalid`] for a bad name.
pub async fn adapter_create(
    tx: &TenantTx,
    new: &NewAdapter<'_>,
    actor: &str,
) -> Result<Adapter, TenancyError> {
    target_create(tx, new.target_id, new.kind, new.name).await?;
    let sql = "insert into mcp_adapters \
               (tenant_id, target_id, adapter_type, config, secret_ref, validated, facts, checked_at) \
               values ($1, $2, $3, $4, $5, $6, $7, case when $6 = 'never_verified' then null else now() end)";
    tx.execute(
        sql,
        &[
            &tx.tenant().as_uuid(),
            &new.target_id.as_uuid(),
            &new.kind.as_str(),
            new.config,
            &new.secret_ref.as_str(),
            &new.checked.validated.as_str(),
            &new.checked.facts,
        ],
    )
    .await?;
    let adapter = adapter_get(tx, new.target_id).await?;
    put_event(tx, "adapter.configured", &adapter, actor).await?;
    Ok(adapter)
}

/// A present adapter.
///
/// # Errors
/// [`TenancyError::NotFound`], also for another tenant's adapter.
pub async fn adapter_get(tx: &TenantTx, target: TargetId) -> Result<Adapter, TenancyError> {
    let sql = select_adapters!("and a.target_id = $2");
    adapter_from(&tx.query_one(sql, &[&tx.tenant().as_uuid(), &target.as_uuid()]).await?)
}

/// The present adapters of one kind: the one of this id or name, or all when none is wanted, by name.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn adapter_find(
    tx: &TenantTx,
    kind: AdapterKind,
    wanted: Option<&str>,
    limit: u32,
) -> Result<Vec<Adapter>, TenancyError> {
    let sql = select_adapters!(
        "and a.adapter_type = $2 and ($3::text is null or t.name = $3 or a.target_id::text = $3) \
         order by t.name, a.target_id limit $4"
    );
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &kind.as_str(), &wanted, &i64::from(limit)]).await?;
    rows.iter().map(adapter_from).collect()
}

/// A page of present adapters in the order of (name, id), after `after`.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn adapter_list(
    tx: &TenantTx,
    after: Option<&TargetCursor>,
    limit: u32,
) -> Result<Vec<Adapter>, TenancyError> {
    let sql = select_adapters!(
        "and ($2::text is null or (t.name, t.target_id) > ($2, $3::uuid)) order by t.name, t.target_id limit $4"
    );
    let name = after.map(|cursor| cursor.name.as_str());
    let id = after.map(|cursor| cursor.target_id.as_uuid());
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &name, &id, &i64::from(limit)]).await?;
    rows.iter().map(adapter_from).collect()
}

/// What the last checks of some adapters found. Targets that are no adapters are not in the answer.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn adapter_validations(
    tx: &TenantTx,
    targets: &[TargetId],
) -> Result<HashMap<TargetId, Validation>, TenancyError> {
    let sql = "select target_id, validated from mcp_adapters where tenant_id = $1 and target_id = any($2)";
    let ids: Vec<_> = targets.iter().map(TargetId::as_uuid).collect();
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &ids]).await?;
    rows.iter()
        .map(|row| Ok((TargetId::from_uuid(row.try_get(0)?), validation_from(row.try_get(1)?)?)))
        .collect()
}

/// Replaces configuration and credential of an adapter, with the event `adapter.updated`. Refused when somebody else
/// changed it since `version` was read.
///
/// # Errors
/// [`TenancyError::Conflict`] (constraint `config_version`) for a stale version.
pub async fn adapter_update(
    tx: &TenantTx,
    target: TargetId,
    version: u64,
    config: &Value,
    secret_ref: &SecretRef,
    checked: &Checked,
    actor: &str,
) -> Result<Adapter, TenancyError> {
    let sql = "update mcp_adapters set config = $4, secret_ref = $5, validated = $6, facts = $7, \
               config_version = config_version + 1, updated_at = now(), \
               checked_at = case when $6 = 'never_verified' then null else now() end \
               where tenant_id = $1 and target_id = $2 and config_version = $3";
    let version = i64::try_from(version).map_err(|_| TenancyError::Invalid(None))?;
    let changed = tx
        .execute(
            sql,
            &[
                &tx.tenant().as_uuid(),
                &target.as_uuid(),
                &version,
                config,
                &secret_ref.as_str(),
                &checked.validated.as_str(),
                &checked.facts,
            ],
        )
        .await?;
    if changed == 0 {
        return Err(TenancyError::Conflict { constraint: Some("config_version".to_owned()) });
    }
    let adapter = adapter_get(tx, target).await?;
    put_event(tx, "adapter.updated", &adapter, actor).await?;
    Ok(adapter)
}

/// Records what a check found. The configuration stays as it is, and so does its version.
///
/// # Errors
/// [`TenancyError::NotFound`].
pub async fn adapter_checked(tx: &TenantTx, target: TargetId, checked: &Checked) -> Result<(), TenancyError> {
    let sql = "update mcp_adapters set validated = $3, facts = $4, checked_at = now() \
               where tenant_id = $1 and target_id = $2";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&tx.tenant().as_uuid(), &target.as_uuid(), &checked.validated.as_str(), &checked.facts];
    match tx.execute(sql, &params).await? {
        0 => Err(TenancyError::NotFound),
        _ => Ok(()),
    }
}

/// Removes an adapter and its target, with the event `adapter.removed`. Returns where its credential lies, which the
/// caller destroys after the commit.
///
/// # Errors
/// [`TenancyError::NotFound`].
pub async fn adapter_remove(tx: &TenantTx, target: TargetId, actor: &str) -> Result<SecretRef, TenancyError> {
    let adapter = adapter_get(tx, target).await?;
    let sql = "delete from mcp_adapters where tenant_id = $1 and target_id = $2";
    tx.execute(sql, &[&tx.tenant().as_uuid(), &target.as_uuid()]).await?;
    target_remove(tx, target).await?;
    put_event(tx, "adapter.removed", &adapter, actor).await?;
    Ok(adapter.secret_ref)
}

/// The options say which check an admin has overridden (`allow_overprivileged`), so they belong into the log; credentials
/// are never among them.
async fn put_event(
    tx: &TenantTx,
    event_type: &str,
    adapter: &Adapter,
    actor: &str,
) -> Result<(), TenancyError> {
    let body = json!({
        "actor": actor, "targetId": adapter.target_id, "type": adapter.kind,
        "validated": adapter.validated.as_str(), "options": adapter.config["options"],
    });
    outbox_put(tx, new_event_id(), event_type, &body).await
}

fn adapter_from(row: &Row) -> Result<Adapter, TenancyError> {
    let malformed = |what: &'static str| TenancyError::Internal(what.into());
    let kind: &str = row.try_get(2)?;
    Ok(Adapter {
        target_id: TargetId::from_uuid(row.try_get(0)?),
        name: row.try_get(1)?,
        kind: AdapterKind::parse(kind).ok_or_else(|| malformed("a stored adapter is of an unknown kind"))?,
        config: row.try_get(3)?,
        secret_ref: SecretRef::new(row.try_get::<_, String>(4)?),
        validated: validation_from(row.try_get(5)?)?,
        facts: row.try_get(6)?,
        config_version: u64::try_from(row.try_get::<_, i64>(7)?)
            .map_err(|_| malformed("a stored version is negative"))?,
        checked_at: row.try_get(8)?,
        created_at: row.try_get(9)?,
    })
}

fn validation_from(word: &str) -> Result<Validation, TenancyError> {
    let known = Validation::ALL.iter().copied().find(|one| one.as_str() == word);
    known.ok_or_else(|| TenancyError::Internal("a stored verdict is unknown".into()))
}
