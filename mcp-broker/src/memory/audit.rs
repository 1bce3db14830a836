//! An audit sink that keeps events in a list. It numbers rows but does not hash them: the chain is the `audit` crate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use mcp_core::audit::{AuditError, AuditEvent, AuditSink, Receipt};
use mcp_core::id::TenantId;

/// Keeps events in memory, in order.
#[derive(Debug, Default)]
pub struct MemoryAudit {
    rows: Mutex<Rows>,
    broken: AtomicBool,
    forgetful: bool,
}

#[derive(Debug, Default)]
struct Rows {
    events: Vec<AuditEvent>,
    seq: HashMap<TenantId, u64>,
}

impl MemoryAudit {
    /// A sink that numbers events and forgets them, for measuring.
    #[must_use]
    pub fn forgetful() -> Self {
        Self { forgetful: true, ..Self::default() }
    }

    /// Makes every append fail from now on, or succeed again.
    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    /// Everything appended so far.
    #[must_use]
    pub fn events(&self) -> Vec<AuditEvent> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).events.clone()
    }
}

#[async_trait]
impl AuditSink for MemoryAudit {
    async fn append(&self, event: AuditEvent) -> Result<Receipt, AuditError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(AuditError::Unavailable);
        }
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = event.tenant;
        let seq = rows.seq.entry(tenant).or_insert(0);
        *seq += 1;
        let receipt = Receipt { tenant, seq: *seq, hash: [0; 32] };
        if !self.forgetful {
            rows.events.push(event);
        }
        Ok(receipt)
    }
}
