//! How a receipt travels from the actor to whoever waits for it, and what happens when nobody does.

use std::sync::Arc;

use mcp_core::audit::{AuditError, Link, Receipt};
use mcp_core::id::InstanceId;
use serde_json::Map;
use tokio::sync::oneshot;

use super::queue::Queue;
use crate::entry::Entry;

pub(crate) type Waiter = oneshot::Sender<Result<Delivery, AuditError>>;

/// A receipt under way. If that of an intent is dropped instead of taken, the waiter has gone away, before or after it
/// was sent: the call never starts, and the intent is closed as `interrupted`.
#[derive(Debug)]
pub(crate) struct Delivery {
    receipt: Receipt,
    intent: Option<Intent>,
}

#[derive(Debug)]
struct Intent {
    entry: Entry,
    queue: Arc<Queue>,
    closed_by: InstanceId,
}

impl Delivery {
    pub(crate) fn new(receipt: Receipt, entry: Entry, queue: &Arc<Queue>, closed_by: InstanceId) -> Self {
        let intent = matches!(entry.link, Link::Intent { .. });
        let intent = intent.then(|| Intent { entry, queue: Arc::clone(queue), closed_by });
        Self { receipt, intent }
    }

    /// The receipt, now in the hands of the one who will see to the outcome.
    pub(crate) fn take(mut self) -> Receipt {
        self.intent = None;
        self.receipt
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let Some(Intent { entry, queue, closed_by }) = self.intent.take() else { return };
        if let Link::Intent { correlation, .. } = entry.link {
            // The text is the one that was made from a map; it cannot fail to become one again.
            let body = serde_json::from_str(&entry.body).unwrap_or_else(|_| Map::new());
            queue.push_owed(Entry::interrupted(entry.tenant, correlation, body, closed_by));
        }
    }
}
