//! The hub: which agent's link is the newest for which target.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::agent::AgentStore;
use mcp_core::audit::{AuditEvent, AuditSink, Body, EventType, Link};
use mcp_core::id::{AgentId, CorrelationId, EventId, TargetId, TenantId};
use mcp_core::relay::{CommandOutcome, SEND_QUEUE_FRAMES, close};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use ulid::Ulid;

/// A failed proof is written once a minute per claimed agent, so that a stranger cannot flood a chain.
const AUTH_FAILED_EVERY: Duration = Duration::from_secs(60);

/// Why a command has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The target's agent is not connected. Nothing is queued for later.
    #[error("the agent is not connected")]
    Offline,
    /// The agent went away before it answered.
    #[error("the agent disconnected")]
    Disconnected,
}

/// What the hub asks of a link.
#[derive(Debug)]
pub(crate) enum Order {
    Call { call: CorrelationId, command: String, reply: oneshot::Sender<CommandOutcome> },
    Cancel { call: CorrelationId },
    Goodbye { reconnect_after_ms: u64 },
}

#[derive(Debug, Clone)]
struct Live {
    epoch: u64,
    agent: AgentId,
    orders: mpsc::Sender<Order>,
    /// Wakes the link when its queue is full: closing must always get through.
    close: Arc<CloseSignal>,
}

/// A close order that needs no room in the queue.
#[derive(Debug, Default)]
pub(crate) struct CloseSignal {
    pub(crate) wake: tokio::sync::Notify,
    pub(crate) order: Mutex<Option<(u16, &'static str)>>,
}

impl CloseSignal {
    fn set(&self, code: u16, reason: &'static str) {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((code, reason));
        self.wake.notify_one();
    }

    pub(crate) fn get(&self) -> Option<(u16, &'static str)> {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the live links of all agents, and runs commands through them.
pub struct Hub {
    pub(crate) agents: Arc<dyn AgentStore>,
    audit: Arc<dyn AuditSink>,
    /// The authority of the public URL, which agents sign.
    pub(crate) server_host: String,
    links: Mutex<HashMap<(TenantId, TargetId), Live>>,
    auth_failures: Mutex<HashMap<Option<AgentId>, Instant>>,
    /// How many sockets are being served, registered or not.
    served: watch::Sender<usize>,
}

impl Hub {
    /// A hub without links. `server_host` is the authority of the public URL (`host` or `host:port`, lower case).
    #[must_use]
    pub fn new(agents: Arc<dyn AgentStore>, audit: Arc<dyn AuditSink>, server_host: String) -> Arc<Self> {
        Arc::new(Self {
            agents,
            audit,
            server_host,
            links: Mutex::default(),
            auth_failures: Mutex::default(),
            served: watch::Sender::new(0),
        })
    }

    /// Whether the target's agent is connected and registered.
    #[must_use]
    pub fn is_connected(&self, tenant: TenantId, target: TargetId) -> bool {
        self.lock().contains_key(&(tenant, target))
    }

    /// How many agents are connected.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lock().len()
    }

    /// Runs a command on the target's agent. The text must be canonical; the agent parses it again.
    ///
    /// Dropping the future tells the agent to kill the command; a result that still arrives is dropped.
    ///
    /// # Errors
    /// [`HubError`], at once when the link is lost.
    pub async fn run(
        &self,
        tenant: TenantId,
        target: TargetId,
        call: CorrelationId,
        command: String,
    ) -> Result<CommandOutcome, HubError> {
        let live = self.lock().get(&(tenant, target)).cloned().ok_or(HubError::Offline)?;
        let (reply, outcome) = oneshot::channel();
        let order = Order::Call { call, command, reply };
        if let Err(mpsc::error::TrySendError::Full(_)) = live.orders.try_send(order) {
            // 32 frames wait and the peer reads none of them.
            live.close.set(close::TOO_SLOW, "the agent does not read");
            return Err(HubError::Disconnected);
        }
        let mut guard = CancelOnDrop { orders: live.orders, call, armed: true };
        let outcome = outcome.await;
        guard.armed = false;
        outcome.map_err(|_| HubError::Disconnected)
    }

    /// Closes the target's link for good: its agent was revoked. Calls in flight end as `agent_disconnected`.
    pub fn revoke(&self, tenant: TenantId, target: TargetId) {
        if let Some(live) = self.lock().remove(&(tenant, target)) {
            live.close.set(close::UNAUTHORIZED, "revoked");
        }
    }

    /// Tells every agent to come back later, because this server is going down.
    pub fn say_goodbye(&self, reconnect_after: Duration) {
        let reconnect_after_ms = u64::try_from(reconnect_after.as_millis()).unwrap_or(u64::MAX);
        for (_, live) in self.lock().drain() {
            if live.orders.try_send(Order::Goodbye { reconnect_after_ms }).is_err() {
                live.close.set(close::GOING_AWAY, "shutting down");
            }
        }
    }

    /// Resolves once no socket is being served any more and each has written its last word.
    pub async fn emptied(&self) {
        // The sender lives as long as the hub, so waiting cannot fail.
        let _ = self.served.subscribe().wait_for(|served| *served == 0).await;
    }

    /// Counts a socket for as long as the value lives.
    pub(crate) fn serving(self: &Arc<Self>) -> Served {
        self.served.send_modify(|served| *served += 1);
        Served(Arc::clone(self))
    }

    /// Makes a link the target's newest. An older one is closed; a link that is itself older is told so by `false`.
    pub(crate) fn enter(&self, place: Place, orders: mpsc::Sender<Order>, close: Arc<CloseSignal>) -> bool {
        let live = Live { epoch: place.epoch, agent: place.agent, orders, close };
        let mut links = self.lock();
        match links.get(&(place.tenant, place.target)) {
            Some(newer) if newer.epoch > place.epoch => return false,
            Some(older) => older.close.set(close::SUPERSEDED, "superseded by a newer connection"),
            None => {}
        }
        links.insert((place.tenant, place.target), live);
        metrics::gauge!("coreci_agents_connected").set(links.len() as f64);
        true
    }

    /// Takes a link out, unless a newer one has its place by now.
    pub(crate) fn leave(&self, place: Place) {
        let mut links = self.lock();
        let is_mine = |live: &Live| live.epoch == place.epoch && live.agent == place.agent;
        if links.get(&(place.tenant, place.target)).is_some_and(is_mine) {
            links.remove(&(place.tenant, place.target));
        }
        metrics::gauge!("coreci_agents_connected").set(links.len() as f64);
    }

    /// Writes a fact about a link. The link's fate does not hang on it: nothing is released by it.
    pub(crate) async fn note(&self, tenant: TenantId, event_type: EventType, body: Body) {
        let id = EventId::from_ulid(Ulid::generate());
        let event = AuditEvent { id, tenant, event_type, body, link: Link::Fact };
        if let Err(error) = self.audit.append(event).await {
            tracing::error!(tenant.id = %tenant, event.type = %event_type, %error, "a relay event was not written");
        }
    }

    /// Whether a failed proof is the first of its minute and so is to be written.
    pub(crate) fn is_first_failure(&self, claimed: Option<AgentId>) -> bool {
        let now = Instant::now();
        let mut failures = self.auth_failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, at| now.duration_since(*at) < AUTH_FAILED_EVERY);
        if failures.contains_key(&claimed) {
            return false;
        }
        failures.insert(claimed, now);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(TenantId, TargetId), Live>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One socket that is being served.
pub(crate) struct Served(Arc<Hub>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.served.send_modify(|served| *served -= 1);
    }
}

/// Where a registered link belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) target: TargetId,
    pub(crate) agent: AgentId,
    pub(crate) epoch: u64,
}

/// Tells the agent to kill a command whose caller is gone.
struct CancelOnDrop {
    orders: mpsc::Sender<Order>,
    call: CorrelationId,
    armed: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            // A full queue means that the agent reads nothing; its own limit of 9.5 s ends the command.
            let _ = self.orders.try_send(Order::Cancel { call: self.call });
        }
    }
}

/// Room for orders to one link.
pub(crate) fn orders() -> (mpsc::Sender<Order>, mpsc::Receiver<Order>) {
    mpsc::channel(SEND_QUEUE_FRAMES)
}
