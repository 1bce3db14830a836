//! The writer as the rest of the program sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_core::audit::{AuditError, AuditEvent, AuditSink, Receipt};
use mcp_core::id::{InstanceId, TenantId};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::Config;

use super::ack::Delivery;
use super::actor::Actor;
use super::config::AuditConfig;
use super::health::{ActorHealth, Health};
use super::queue::{Item, Queue};
use crate::entry::Entry;
use crate::outbox::Drainer;
use crate::pseudonym::Pseudonyms;

/// How long the actors go on by themselves when the writer is dropped without [`PostgresAudit::shutdown`].
const AFTER_DROP: Duration = Duration::from_secs(5);

/// Writes events into the chains in Postgres, many per commit.
///
/// Any number of these may write to one database, in one process or in several: they take turns at each chain.
pub struct PostgresAudit {
    config: Config,
    instance: InstanceId,
    deadline: Duration,
    pseudonyms: Pseudonyms,
    queues: Vec<Arc<Queue>>,
    health: Vec<Arc<ActorHealth>>,
    drainer: Drainer,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The time to write what was queued is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{events} audit events could not be written before the end")]
pub struct NotDrained {
    /// How many were left. Intents among them were never acknowledged; what an outcome among them would have closed is
    /// closed as `interrupted` by the next run.
    pub events: usize,
}

impl PostgresAudit {
    /// Starts the writer. `database` logs in as `coreci_audit`; its keepalives and `tcp_user_timeout` decide how soon a
    /// silent network is noticed.
    ///
    /// This needs a tokio runtime but no database: while there is none, appends fail with
    /// [`AuditError::Unavailable`], and the writer recovers by itself when there is one.
    #[must_use]
    pub fn start(config: AuditConfig, database: Config) -> Self {
        let AuditConfig { pseudonym_key, instance, shards, queue, deadline } = config;
        let queues: Vec<_> = (0..shards.max(1)).map(|_| Arc::new(Queue::new(queue.max(1)))).collect();
        let mut health = Vec::new();
        let mut tasks = Vec::new();
        for (number, queue) in queues.iter().enumerate() {
            let actor_health = ActorHealth::new(format!("shard {number}"));
            health.push(Arc::clone(&actor_health));
            let actor = Actor::new(Arc::clone(queue), database.clone(), instance, actor_health);
            tasks.push(tokio::spawn(actor.run()));
        }
        let outbox_health = ActorHealth::new("outbox".to_owned());
        health.push(Arc::clone(&outbox_health));
        let (drainer, task) = Drainer::start(database.clone(), outbox_health);
        tasks.push(task);
        let pseudonyms = Pseudonyms::new(&pseudonym_key);
        Self {
            config: database,
            instance,
            deadline,
            pseudonyms,
            queues,
            health,
            drainer,
            tasks: Mutex::new(tasks),
        }
    }

    /// This run, as intents carry it.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Whether the log can be written, as of the last transaction.
    #[must_use]
    pub fn health(&self) -> Health {
        let queued = self.queues.iter().map(|queue| queue.len()).sum();
        let mut health = Health { writable: true, queued, last_error: None };
        self.health.iter().for_each(|actor| actor.add_to(&mut health));
        health
    }

    /// Says that something was put into the outbox, so that it is drained now rather than within a second.
    pub fn nudge(&self) {
        self.drainer.nudge();
    }

    /// Takes no more events, writes those that are queued, and ends the connections. A second call does nothing.
    ///
    /// # Errors
    /// [`NotDrained`] when that takes longer than `limit`.
    ///
    /// Dropping the future leaves the actors to finish by themselves within the same limit.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), NotDrained> {
        self.close(limit);
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the audit writer panicked");
            }
        }
        match self.queues.iter().map(|queue| queue.len()).sum() {
            0 => Ok(()),
            events => Err(NotDrained { events }),
        }
    }

    pub(crate) fn database(&self) -> &Config {
        &self.config
    }

    /// Appends a prepared event and waits for its receipt.
    pub(crate) async fn append_entry(&self, entry: Entry) -> Result<Receipt, AuditError> {
        let queue = &self.queues[shard_of(entry.tenant, self.queues.len())];
        let (waiter, receipt) = oneshot::channel();
        queue.push(Item { entry, waiter: Some(waiter), tried: false })?;
        match tokio::time::timeout(self.deadline, receipt).await {
            Ok(Ok(answer)) => answer.map(Delivery::take),
            // The actor is gone.
            Ok(Err(_)) => Err(AuditError::Unavailable),
            Err(_) => {
                metrics::counter!("audit_write_failures_total", "reason" => "deadline").increment(1);
                Err(AuditError::Unavailable)
            }
        }
    }

    fn close(&self, limit: Duration) {
        let give_up = Instant::now() + limit;
        self.queues.iter().for_each(|queue| queue.close(give_up));
        self.drainer.stop();
    }
}

#[async_trait]
impl AuditSink for PostgresAudit {
    async fn append(&self, event: AuditEvent) -> Result<Receipt, AuditError> {
        let started = Instant::now();
        let result = self.append_entry(Entry::new(event, &self.pseudonyms)?).await;
        metrics::histogram!("audit_append_seconds").record(started.elapsed().as_secs_f64());
        result
    }

    fn outbox_changed(&self) {
        self.nudge();
    }
}

impl std::fmt::Debug for PostgresAudit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresAudit").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl Drop for PostgresAudit {
    fn drop(&mut self) {
        self.close(AFTER_DROP);
    }
}

/// Tenant ids are random, or one of the few that people make up; folding the halves serves both.
fn shard_of(tenant: TenantId, shards: usize) -> usize {
    let (high, low) = tenant.as_uuid().as_u64_pair();
    let mixed = (high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % shards
}
