//! Which tools a tenant has switched off. A tenant takes tools away; it can never add one (INV-5).

use std::collections::BTreeSet;

use serde_json::json;

use crate::error::TenancyError;
use crate::outbox::{new_event_id, outbox_put};
use crate::tx::TenantTx;

/// The names of the tools that are switched off; empty when the tenant never chose.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn tool_policy_get(tx: &TenantTx) -> Result<BTreeSet<String>, TenancyError> {
    let sql = "select disabled from tool_policies where tenant_id = $1";
    match tx.query_opt(sql, &[&tx.tenant().as_uuid()]).await? {
        Some(row) => Ok(row.try_get::<_, Vec<String>>(0)?.into_iter().collect()),
        None => Ok(BTreeSet::new()),
    }
}

/// Replaces the list of tools that are switched off, and puts `tool_policy.changed` into the outbox. That the names are
/// names of tools is for the caller to check.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn tool_policy_set(
    tx: &TenantTx,
    disabled: &BTreeSet<String>,
    actor: &str,
) -> Result<(), TenancyError> {
    let sql = "insert into tool_policies (tenant_id, disabled) values ($1, $2) \
               on conflict (tenant_id) do update set disabled = excluded.disabled, updated_at = now()";
    let names: Vec<&str> = disabled.iter().map(String::as_str).collect();
    tx.execute(sql, &[&tx.tenant().as_uuid(), &names]).await?;
    outbox_put(tx, new_event_id(), "tool_policy.changed", &json!({ "actor": actor, "disabled": names })).await
}
