//! Events that belong to a state change. They are stored in the change's own transaction and drained into the audit
//! chain, in order, by the audit writer: neither can happen without the other.

use mcp_core::id::EventId;
use serde_json::Value;
use ulid::Ulid;

use crate::error::TenancyError;
use crate::tx::TenantTx;

/// Adds an event to the tenant's outbox. The body is a flat JSON object with camelCase keys.
///
/// # Errors
/// As [`TenantTx::execute`]. A NUL character in the body is [`TenancyError::Invalid`].
pub async fn outbox_put(
    tx: &TenantTx,
    event_id: EventId,
    event_type: &str,
    body: &Value,
) -> Result<(), TenancyError> {
    let sql = "insert into audit_outbox (tenant_id, event_id, event_type, body) values ($1, $2, $3, $4)";
    tx.execute(sql, &[&tx.tenant().as_uuid(), &event_id.as_uuid(), &event_type, body]).await?;
    Ok(())
}

/// A fresh event id, for events that no caller has named.
#[must_use]
pub fn new_event_id() -> EventId {
    EventId::from_ulid(Ulid::generate())
}
