//! Closes what a dead process has left open.

use futures_util::future::join_all;
use mcp_core::audit::AuditError;
use mcp_core::id::{CorrelationId, TenantId};
use serde_json::Value;
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::entry::Entry;
use crate::lease::InstanceLease;
use crate::writer::PostgresAudit;

const PAGE: &str = "
    select tenant_id, correlation_id, body from audit_open
    where instance <> $1 and (tenant_id, correlation_id) > ($2, $3)
    order by tenant_id, correlation_id limit 256";

/// The sweep ended early. What it had closed stays closed; a later sweep does the rest.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Without the lease the others may be alive.
    #[error("the instance lease is not held")]
    LeaseLost,
    /// The open calls could not be read.
    #[error("the open calls could not be read")]
    Read(#[source] tokio_postgres::Error),
    /// The log cannot be written. The writer still owes what was appended.
    #[error("an outcome could not be written")]
    Write(#[source] AuditError),
}

/// Closes every intent that an instance other than the writer's has left open, as `interrupted`, and returns how many.
/// The lease is the evidence that those instances are dead.
///
/// Exactly one outcome follows each intent, however often and by however many this is run.
///
/// # Errors
/// See [`SweepError`].
pub async fn sweep(writer: &PostgresAudit, lease: &InstanceLease) -> Result<u64, SweepError> {
    let (client, connection) = writer.database().connect(NoTls).await.map_err(SweepError::Read)?;
    let driver = tokio::spawn(connection);
    let mut closed = 0;
    let mut last = (Uuid::nil(), Uuid::nil());
    loop {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&writer.instance().as_uuid(), &last.0, &last.1];
        let rows = client.query(PAGE, &params).await.map_err(SweepError::Read)?;
        let Some(row) = rows.last() else { break };
        last = (row.get(0), row.get(1));
        if !lease.is_held() {
            return Err(SweepError::LeaseLost);
        }
        let outcomes = rows.iter().map(|row| {
            let (tenant, correlation) =
                (TenantId::from_uuid(row.get(0)), CorrelationId::from_uuid(row.get(1)));
            let intent = match row.get(2) {
                Value::Object(intent) => intent,
                _ => serde_json::Map::new(),
            };
            writer.append_entry(Entry::interrupted(tenant, correlation, intent, writer.instance()))
        });
        for result in join_all(outcomes).await {
            match result {
                Ok(_) => closed += 1,
                Err(AuditError::AlreadyClosed) => {}
                Err(error @ (AuditError::Unavailable | AuditError::Refused(_))) => {
                    return Err(SweepError::Write(error));
                }
            }
        }
    }
    driver.abort();
    if closed > 0 {
        tracing::warn!(calls = closed, "calls that an earlier run had left open were closed as interrupted");
    }
    Ok(closed)
}
