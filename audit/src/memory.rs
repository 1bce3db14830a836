//! A log in memory: the same chain without a database, for embedding and for tests.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use mcp_core::audit::{AuditError, AuditEvent, AuditSink, Link, Receipt};
use mcp_core::id::{CorrelationId, TenantId};

use crate::chain::{Head, Row};
use crate::entry::Entry;
use crate::pseudonym::Pseudonyms;
use crate::writer::now_us;

/// Keeps chains in memory. Nothing here is durable, so an `Ok` means less than that of
/// [`PostgresAudit`](crate::PostgresAudit).
#[derive(Debug)]
pub struct MemoryAudit {
    pseudonyms: Pseudonyms,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rows: Vec<Row>,
    heads: HashMap<TenantId, Head>,
    open: HashSet<(TenantId, CorrelationId)>,
    failing: bool,
}

impl MemoryAudit {
    /// An empty log.
    #[must_use]
    pub fn new(pseudonym_key: [u8; 32]) -> Self {
        Self { pseudonyms: Pseudonyms::new(&pseudonym_key), state: Mutex::default() }
    }

    /// Makes every append fail with [`AuditError::Unavailable`] from now on, or succeed again.
    pub fn set_failing(&self, failing: bool) {
        self.state().failing = failing;
    }

    /// All rows, in the order in which they were appended.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.state().rows.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AuditSink for MemoryAudit {
    async fn append(&self, event: AuditEvent) -> Result<Receipt, AuditError> {
        let entry = Entry::new(event, &self.pseudonyms)?;
        let mut state = self.state();
        if state.failing {
            return Err(AuditError::Unavailable);
        }
        let is_it = |row: &&Row| row.tenant == entry.tenant && row.event_id == entry.id;
        if let Some(row) = state.rows.iter().find(is_it) {
            return Ok(Receipt { tenant: row.tenant, seq: row.seq, hash: row.hash });
        }
        match entry.link {
            Link::Intent { correlation, .. } => drop(state.open.insert((entry.tenant, correlation))),
            Link::Outcome { correlation } if !state.open.remove(&(entry.tenant, correlation)) => {
                return Err(AuditError::AlreadyClosed);
            }
            Link::Outcome { .. } | Link::Fact => {}
        }
        let Entry { tenant, id, event_type, body, .. } = entry;
        let head = state.heads.entry(tenant).or_insert(Head::GENESIS);
        let prev_hash = head.hash;
        *head = head.next(tenant, &event_type, id, body.as_bytes(), now_us());
        let Head { seq, at_us, hash } = *head;
        let (event_type, body) = (event_type.into_owned(), body.into_bytes());
        state.rows.push(Row { tenant, seq, at_us, event_type, event_id: id, body, prev_hash, hash });
        Ok(Receipt { tenant, seq, hash })
    }
}
