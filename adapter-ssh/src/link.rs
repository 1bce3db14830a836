//! The driver of one accepted socket: runs the pure state machine of `mcp_core::relay` over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use mcp_core::agent::AgentRecord;
use mcp_core::audit::{Body, EventType};
use mcp_core::id::{CorrelationId, TenantId};
use mcp_core::relay::{
    CommandOutcome, REGISTER_DEADLINE, SILENCE_LIMIT, ServerAction, ServerFrame, ServerLink, close,
};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, UnparsedPublicKey};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use ulid::Ulid;

use crate::hub::{CloseSignal, Hub, Order, Place, orders};

/// Time for one frame to be taken by the socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Heartbeats of one link that come faster than this are not stored.
const STORE_EVERY: Duration = Duration::from_secs(5);

/// What a socket receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound {
    /// A text message.
    Text(String),
    /// Anything that the protocol has no use for, such as a binary message.
    Other,
}

/// What a socket sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outbound {
    /// A text message.
    Text(String),
    /// Close with a code and a reason.
    Close {
        /// One of [`mcp_core::relay::close`].
        code: u16,
        /// For the peer's log.
        reason: &'static str,
    },
}

/// Serves one socket until either end closes it. `peer` is the address it came from, for the audit log.
///
/// Dropping the future closes the link; calls in flight end as `agent_disconnected`.
pub async fn serve<R, W>(hub: Arc<Hub>, peer: String, inbound: R, outbound: W)
where
    R: Stream<Item = Inbound> + Send + Unpin,
    W: Sink<Outbound> + Send + Unpin,
{
    let _served = hub.serving();
    let Some(nonce) = fresh_nonce() else {
        tracing::error!("the system has no randomness to offer; an agent was turned away");
        return;
    };
    let (machine, opening) = ServerLink::open(nonce, Ulid::generate().to_string(), hub.server_host.clone());
    let (send_orders, receive_orders) = orders();
    let mut driver = Driver {
        hub,
        peer,
        machine,
        outbound,
        send_orders,
        close: Arc::default(),
        place: None,
        agent: None,
        waiting: HashMap::new(),
        stored_at: None,
    };
    let end = driver.run(opening, inbound, receive_orders).await;
    driver.leave(end).await;
}

struct Driver<W> {
    hub: Arc<Hub>,
    peer: String,
    machine: ServerLink,
    outbound: W,
    send_orders: mpsc::Sender<Order>,
    close: Arc<CloseSignal>,
    place: Option<Place>,
    agent: Option<AgentRecord>,
    waiting: HashMap<CorrelationId, oneshot::Sender<CommandOutcome>>,
    /// When a heartbeat was last stored.
    stored_at: Option<Instant>,
}

/// Why a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End(&'static str);

impl<W: Sink<Outbound> + Send + Unpin> Driver<W> {
    async fn run<R>(
        &mut self,
        opening: Vec<ServerAction>,
        mut inbound: R,
        mut orders: mpsc::Receiver<Order>,
    ) -> End
    where
        R: Stream<Item = Inbound> + Send + Unpin,
    {
        if let Err(end) = self.perform(opening).await {
            return end;
        }
        let opened = Instant::now();
        let mut heard = opened;
        loop {
            let deadline =
                if self.machine.is_live() { heard + SILENCE_LIMIT } else { opened + REGISTER_DEADLINE };
            let close = Arc::clone(&self.close);
            let step = tokio::select! {
                biased;
                () = close.wake.notified() => match close.get() {
                    Some((code, reason)) => self.send_close(code, reason).await,
                    None => Ok(()),
                },
                () = tokio::time::sleep_until(deadline) => {
                    self.send_close(close::TIMEOUT, "nothing was heard in time").await
                }
                message = inbound.next() => match message {
                    Some(Inbound::Text(text)) => {
                        heard = Instant::now();
                        let actions = self.machine.on_frame(&text);
                        self.perform(actions).await
                    }
                    Some(Inbound::Other) => self.send_close(close::PROTOCOL, "text messages only").await,
                    None => Err(End("the peer closed")),
                },
                Some(order) = orders.recv() => self.obey(order).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), End> {
        match order {
            Order::Call { call, command, reply } => {
                self.waiting.insert(call, reply);
                let actions = self.machine.call(call, command);
                self.perform(actions).await
            }
            Order::Cancel { call } => {
                self.waiting.remove(&call);
                let actions = self.machine.cancel(call);
                self.perform(actions).await
            }
            Order::Goodbye { reconnect_after_ms } => {
                self.send(ServerFrame::Goodbye { reconnect_after_ms }).await?;
                self.send_close(close::GOING_AWAY, "shutting down").await
            }
        }
    }

    /// Performs actions in order. An action may bring about further ones, which come before the rest.
    async fn perform(&mut self, actions: Vec<ServerAction>) -> Result<(), End> {
        let mut queue: std::collections::VecDeque<_> = actions.into();
        while let Some(action) = queue.pop_front() {
            let more = match action {
                ServerAction::Send(frame) => {
                    self.send(frame).await?;
                    Vec::new()
                }
                ServerAction::Close { code, reason } => {
                    self.send_close(code, reason).await?;
                    Vec::new()
                }
                ServerAction::FindAgent(agent) => {
                    let found = self.hub.agents.agent_find(agent).await.map_err(|error| {
                        tracing::error!(agent.id = %agent, error = %error.0, "an agent cannot be looked up");
                        End("the agent registry is unavailable")
                    })?;
                    self.agent = found.clone();
                    self.machine.on_agent(found, verify_ed25519)
                }
                ServerAction::Register { agent, facts } => {
                    let registered =
                        self.hub.agents.agent_registered(agent.tenant, agent.agent, &facts).await;
                    let registration = registered.map_err(|error| {
                        tracing::error!(agent.id = %agent.agent, error = %error.0, "a registration was not stored");
                        End("the agent registry is unavailable")
                    })?;
                    self.machine.on_registered(registration)
                }
                ServerAction::Live(registration) => {
                    let Some(agent) = &self.agent else { return Err(End("registered without an agent")) };
                    let place = Place {
                        tenant: agent.tenant,
                        target: registration.target,
                        agent: agent.agent,
                        epoch: registration.epoch,
                    };
                    if !self.hub.enter(place, self.send_orders.clone(), Arc::clone(&self.close)) {
                        self.send_close(close::SUPERSEDED, "superseded by a newer connection").await?;
                    }
                    self.place = Some(place);
                    tracing::info!(tenant.id = %place.tenant, target.id = %place.target, "an agent is connected");
                    Vec::new()
                }
                ServerAction::Seen => {
                    self.seen().await?;
                    Vec::new()
                }
                ServerAction::Deliver { call, outcome } => {
                    if let Some(reply) = self.waiting.remove(&call) {
                        // The caller may have gone away this very moment.
                        let _ = reply.send(outcome);
                    }
                    Vec::new()
                }
                ServerAction::Dropped => {
                    metrics::counter!("coreci_relay_frames_dropped_total").increment(1);
                    Vec::new()
                }
                ServerAction::AuthFailed { claimed, reason } => {
                    self.note_auth_failure(claimed, reason).await;
                    Vec::new()
                }
            };
            for action in more.into_iter().rev() {
                queue.push_front(action);
            }
        }
        Ok(())
    }

    /// A heartbeat that cannot be stored costs the target a little of its green, not the link.
    async fn seen(&mut self) -> Result<(), End> {
        let Some(place) = self.place else { return Ok(()) };
        // However fast a peer pings, the database hears of it at a pace of ours.
        if self.stored_at.is_some_and(|at| at.elapsed() < STORE_EVERY) {
            return Ok(());
        }
        self.stored_at = Some(Instant::now());
        match self.hub.agents.agent_seen(place.tenant, place.agent, place.epoch).await {
            Ok(true) => Ok(()),
            Ok(false) => self.send_close(close::UNAUTHORIZED, "unauthorized").await,
            Err(error) => {
                tracing::warn!(target.id = %place.target, error = %error.0, "a heartbeat was not stored");
                Ok(())
            }
        }
    }

    async fn note_auth_failure(&self, claimed: Option<AgentRecord>, reason: &'static str) {
        metrics::counter!("coreci_relay_auth_failures_total").increment(1);
        let agent = claimed.as_ref().map(|record| record.agent);
        if !self.hub.is_first_failure(agent) {
            return;
        }
        let body = Body::new().public("reason", reason).public("peer", &self.peer);
        let (tenant, body) = match claimed {
            Some(record) => {
                (record.tenant, body.public("agentId", record.agent).public("targetId", record.target))
            }
            None => (TenantId::SYSTEM, body),
        };
        self.hub.note(tenant, EventType::RelayAuthFailed, body).await;
    }

    async fn send(&mut self, frame: ServerFrame) -> Result<(), End> {
        self.send_outbound(Outbound::Text(frame.to_text())).await
    }

    async fn send_close(&mut self, code: u16, reason: &'static str) -> Result<(), End> {
        self.send_outbound(Outbound::Close { code, reason }).await?;
        Err(End(reason))
    }

    async fn send_outbound(&mut self, message: Outbound) -> Result<(), End> {
        match tokio::time::timeout(SEND_TIMEOUT, self.outbound.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End("the socket is gone")),
            Err(_) => Err(End("the agent does not read")),
        }
    }

    async fn leave(self, end: End) {
        // Dropping the senders tells every waiting call at once.
        drop(self.waiting);
        let Some(place) = self.place else { return };
        self.hub.leave(place);
        tracing::info!(tenant.id = %place.tenant, target.id = %place.target, reason = end.0, "an agent is gone");
        let superseded = self.close.get().is_some_and(|(code, _)| code == close::SUPERSEDED);
        let event_type = if superseded { EventType::RelaySuperseded } else { EventType::RelayDisconnected };
        let body = Body::new()
            .public("targetId", place.target)
            .public("agentId", place.agent)
            .public("epoch", place.epoch)
            .public("peer", &self.peer)
            .public("reason", end.0);
        self.hub.note(place.tenant, event_type, body).await;
    }
}

fn verify_ed25519(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

fn fresh_nonce() -> Option<String> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
