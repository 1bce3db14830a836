//! Events that belong to a state change. The change's own transaction puts them into `audit_outbox`; here they move on into
//! the chain, each exactly once, in the order of their positions.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::audit::Link;
use mcp_core::id::{EventId, TenantId};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::entry::Entry;
use crate::writer::{ActorHealth, Failure, Known, Session, Transaction, Work, append};

/// The pause after a round that found something.
const BUSY: Duration = Duration::from_millis(250);
/// The pause after a round that found nothing.
const IDLE: Duration = Duration::from_secs(1);
/// Behind the role's own `statement_timeout` of 10 s.
const ROUND_LIMIT: Duration = Duration::from_secs(12);
const BATCH: i64 = 256;

/// Whoever drains holds this lock to the end of its transaction. Two that skipped each other's rows could commit them in the
/// wrong order.
const BEGIN: &str = "begin; select pg_advisory_xact_lock(4990340001)";
const ANYTHING: &str = "select exists (select from audit_outbox)";
const TENANTS: &str = "select distinct tenant_id from audit_outbox order by tenant_id";
const TAKE: &str = "
    delete from audit_outbox o
    using (select tenant_id, position from audit_outbox where $1::uuid is null or tenant_id = $1
           order by position limit $2) first
    where o.tenant_id = first.tenant_id and o.position = first.position
    returning o.position, o.tenant_id, o.event_id, o.event_type, o.body::text";

/// The outbox could not be drained; what is left in it stays there.
#[derive(Debug, thiserror::Error)]
#[error("the audit outbox could not be drained: {0}")]
pub struct OutboxError(String);

/// Moves everything that is in the outbox now into the chains, for commands that run without a writer. `database` logs in
/// as `coreci_audit`. Returns how many events were moved.
///
/// # Errors
/// [`OutboxError`] when the database cannot be reached or refuses; what was moved before stays moved.
///
/// Cancel-safe: each round commits entirely or not at all.
pub async fn drain_once(database: &Config) -> Result<u64, OutboxError> {
    let drained = async {
        let session = Session::open(database).await?;
        drain(&session, &mut Known::new()).await
    };
    let drained = drained.await.map_err(|failure| OutboxError(failure.to_string()))?;
    match drained.stuck {
        None => Ok(drained.events),
        Some(failure) => Err(OutboxError(failure.to_string())),
    }
}

/// The task that drains the outbox for as long as the writer runs.
#[derive(Debug)]
pub(crate) struct Drainer {
    nudged: Arc<Notify>,
    stop: watch::Sender<bool>,
}

impl Drainer {
    pub(crate) fn start(database: Config, health: Arc<ActorHealth>) -> (Self, JoinHandle<()>) {
        let nudged = Arc::new(Notify::new());
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(database, Arc::clone(&nudged), stopped, health));
        (Self { nudged, stop }, task)
    }

    pub(crate) fn nudge(&self) {
        self.nudged.notify_one();
    }

    /// What is in the outbox is durable there, so there is nothing to finish first.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

async fn run(
    database: Config,
    nudged: Arc<Notify>,
    mut stopped: watch::Receiver<bool>,
    health: Arc<ActorHealth>,
) {
    let mut session = None;
    let mut known = Known::new();
    loop {
        let round = async {
            let open = match session.take() {
                Some(open) => open,
                None => Session::open(&database).await?,
            };
            let drained = timeout(ROUND_LIMIT, drain(&open, &mut known)).await;
            let drained = drained
                .unwrap_or_else(|_| Err(Failure::Lost("the server did not answer in time".to_owned())))?;
            session = Some(open);
            Ok::<_, Failure>(drained)
        };
        // A failed round leaves no session behind: the transaction that it may still be in ends with it.
        let pause = match round.await {
            Ok(Drained { stuck: Some(failure), .. }) => {
                health.failed(&failure);
                IDLE
            }
            Ok(Drained { events: 0, .. }) => {
                health.succeeded();
                IDLE
            }
            Ok(_) => {
                health.succeeded();
                BUSY
            }
            Err(failure) => {
                health.failed(&failure);
                IDLE
            }
        };
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            () = nudged.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    health.stopped();
}

struct Drained {
    events: u64,
    /// Why some tenant's events could not be moved, although others' could.
    stuck: Option<Failure>,
}

/// Empties the outbox. A tenant whose chain refuses its events does not keep the others' from being moved.
async fn drain(session: &Session, known: &mut Known) -> Result<Drained, Failure> {
    let mut drained = Drained { events: 0, stuck: None };
    while session.client.query_one(ANYTHING, &[]).await?.get(0) {
        match batch(session, known, None).await {
            Ok(0) => break,
            Ok(events) => drained.events += events,
            Err(Failure::Row(_)) => {
                session.client.batch_execute("rollback").await?;
                drain_each(session, known, &mut drained).await?;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(drained)
}

async fn drain_each(session: &Session, known: &mut Known, drained: &mut Drained) -> Result<(), Failure> {
    for row in session.client.query(TENANTS, &[]).await? {
        loop {
            match batch(session, known, Some(row.get(0))).await {
                Ok(0) => break,
                Ok(events) => drained.events += events,
                Err(failure @ Failure::Row(_)) => {
                    session.client.batch_execute("rollback").await?;
                    drained.stuck = Some(failure);
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(())
}

/// Takes events out and appends them, in one transaction.
async fn batch(session: &Session, known: &mut Known, tenant: Option<Uuid>) -> Result<u64, Failure> {
    let params: [&(dyn ToSql + Sync); 2] = [&tenant, &BATCH];
    session.client.batch_execute(BEGIN).await?;
    let mut rows = session.client.query(TAKE, &params).await?;
    rows.sort_by_key(|row| row.get::<_, i64>(0));
    let mut seen = HashSet::new();
    let events: Vec<Event> = rows
        .iter()
        .map(|row| Entry {
            tenant: TenantId::from_uuid(row.get(1)),
            id: EventId::from_uuid(row.get(2)),
            event_type: row.get::<_, String>(3).into(),
            body: row.get(4),
            link: Link::Fact,
        })
        .filter(|entry| seen.insert((entry.tenant, entry.id)))
        .map(Event)
        .collect();
    append(session, known, Transaction::Continue, &events).await?;
    Ok(rows.len() as u64)
}

struct Event(Entry);

impl Work for Event {
    fn entry(&self) -> &Entry {
        &self.0
    }

    /// Somebody may have appended the same event by other means.
    fn may_be_there(&self) -> bool {
        true
    }

    fn is_withdrawn(&self) -> bool {
        false
    }
}
