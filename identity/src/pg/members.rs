//! Users and their roles: what keys and identities have in common.

use mcp_core::id::PrincipalId;
use tenancy::{TenancyError, TenantTx};
use tokio_postgres::Row;

use crate::role::{Role, UnknownRole};

pub(super) async fn membership_set(tx: &TenantTx, user: PrincipalId, role: Role) -> Result<(), TenancyError> {
    let sql = "insert into tenant_memberships (tenant_id, user_id, role) values ($1, $2, $3) \
               on conflict (tenant_id, user_id) do update set role = excluded.role";
    tx.execute(sql, &[&tx.tenant().as_uuid(), &user.as_uuid(), &role.as_str()]).await?;
    Ok(())
}

/// Who did it, as the audit log names it: a principal, or the operator at the command line.
pub(super) fn actor_word(actor: Option<PrincipalId>) -> String {
    actor.map_or_else(|| "operator".to_owned(), |actor| actor.to_string())
}

pub(super) fn role_from(row: &Row, column: usize) -> Result<Role, TenancyError> {
    let word: &str = row.try_get(column)?;
    word.parse().map_err(|error: UnknownRole| TenancyError::Internal(Box::new(error)))
}
