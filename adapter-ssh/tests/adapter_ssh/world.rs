//! A hub, a registry in memory, and agents that drive the real state machine with real keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use adapter_ssh::{Hub, Inbound, Outbound, serve};
use async_trait::async_trait;
use futures_channel::mpsc;
use futures_util::{SinkExt, StreamExt};
use mcp_core::agent::{AgentRecord, AgentStore, AgentStoreError, Registration};
use mcp_core::audit::{AuditError, AuditEvent, AuditSink, EventType, Receipt};
use mcp_core::id::{AgentId, CorrelationId, TargetId, TenantId};
use mcp_core::relay::{AgentAction, AgentLink, CommandOutcome, HostFacts, RanCommand};
use ring::signature::{Ed25519KeyPair, KeyPair};
use tokio::task::JoinHandle;
use ulid::Ulid;
use uuid::Uuid;

pub(crate) const TENANT: TenantId = TenantId::from_uuid(Uuid::from_u128(1));
pub(crate) const AGENT: AgentId = AgentId::from_uuid(Uuid::from_u128(2));
pub(crate) const TARGET: TargetId = TargetId::from_uuid(Uuid::from_u128(3));
pub(crate) const HOST: &str = "coreci.example";

#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) agents: Mutex<HashMap<AgentId, AgentRecord>>,
    pub(crate) epoch: Mutex<u64>,
    pub(crate) seen: Mutex<usize>,
    pub(crate) events: Mutex<Vec<EventType>>,
}

#[async_trait]
impl AgentStore for Registry {
    async fn agent_find(&self, agent: AgentId) -> Result<Option<AgentRecord>, AgentStoreError> {
        Ok(self.agents.lock().expect("lock").get(&agent).cloned())
    }

    async fn agent_registered(
        &self,
        _: TenantId,
        agent: AgentId,
        _: &HostFacts,
    ) -> Result<Option<Registration>, AgentStoreError> {
        let mut epoch = self.epoch.lock().expect("lock");
        *epoch += 1;
        let agents = self.agents.lock().expect("lock");
        Ok(agents
            .get(&agent)
            .filter(|record| !record.revoked)
            .map(|record| Registration { target: record.target, epoch: *epoch }))
    }

    async fn agent_seen(&self, _: TenantId, agent: AgentId, _: u64) -> Result<bool, AgentStoreError> {
        *self.seen.lock().expect("lock") += 1;
        Ok(self.agents.lock().expect("lock").get(&agent).is_some_and(|record| !record.revoked))
    }
}

#[async_trait]
impl AuditSink for Registry {
    async fn append(&self, event: AuditEvent) -> Result<Receipt, AuditError> {
        self.events.lock().expect("lock").push(event.event_type);
        Ok(Receipt { tenant: event.tenant, seq: 1, hash: [0; 32] })
    }
}

pub(crate) struct World {
    pub(crate) hub: Arc<Hub>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) key: Ed25519KeyPair,
}

/// The agent's end of one socket.
pub(crate) struct AgentSocket {
    pub(crate) to_hub: mpsc::Sender<Inbound>,
    pub(crate) from_hub: mpsc::Receiver<Outbound>,
    pub(crate) machine: AgentLink,
    pub(crate) served: JoinHandle<()>,
}

pub(crate) fn key(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a key")
}

pub(crate) fn call(n: u128) -> CorrelationId {
    CorrelationId::from_ulid(Ulid(n))
}

impl World {
    pub(crate) fn new() -> Self {
        let registry = Arc::new(Registry::default());
        let key = key(7);
        let public_key = key.public_key().as_ref().try_into().expect("32 bytes");
        let record = AgentRecord { tenant: TENANT, agent: AGENT, target: TARGET, public_key, revoked: false };
        registry.agents.lock().expect("lock").insert(AGENT, record);
        let hub = Hub::new(registry.clone(), registry.clone(), HOST.to_owned());
        Self { hub, registry, key }
    }

    /// Opens a socket to the hub.
    pub(crate) fn dial(&self, believed_host: &str) -> AgentSocket {
        let (to_hub, inbound) = mpsc::channel(8);
        let (outbound, from_hub) = mpsc::channel(8);
        let served = tokio::spawn(serve(Arc::clone(&self.hub), "192.0.2.9".to_owned(), inbound, outbound));
        let machine = AgentLink::new(AGENT, believed_host.to_owned(), HostFacts::default());
        AgentSocket { to_hub, from_hub, machine, served }
    }

    /// Opens a socket and registers.
    pub(crate) async fn connected(&self) -> AgentSocket {
        let mut socket = self.dial(HOST);
        socket.handshake(&self.key).await;
        assert!(socket.machine.is_live());
        socket
    }

    pub(crate) fn events(&self) -> Vec<EventType> {
        self.registry.events.lock().expect("lock").clone()
    }
}

impl AgentSocket {
    /// Drives the handshake until the link is live or closed; answers with the close code, if any.
    pub(crate) async fn handshake(&mut self, key: &Ed25519KeyPair) -> Option<u16> {
        while !self.machine.is_live() {
            let actions = match self.from_hub.next().await? {
                Outbound::Text(text) => self.machine.on_frame(&text),
                Outbound::Close { code, .. } => return Some(code),
            };
            for action in actions {
                if let AgentAction::Sign(message) = action {
                    let signed = self.machine.on_signed(key.sign(&message).as_ref());
                    self.send(signed).await;
                }
            }
        }
        None
    }

    pub(crate) async fn send(&mut self, actions: Vec<AgentAction>) {
        for action in actions {
            if let AgentAction::Send(frame) = action {
                self.to_hub.send(Inbound::Text(frame.to_text())).await.expect("the hub reads");
            }
        }
    }

    /// The next actions that a frame brings about; the close code when there is none.
    pub(crate) async fn next(&mut self) -> Result<Vec<AgentAction>, Option<u16>> {
        match self.from_hub.next().await {
            Some(Outbound::Text(text)) => Ok(self.machine.on_frame(&text)),
            Some(Outbound::Close { code, .. }) => Err(Some(code)),
            None => Err(None),
        }
    }

    /// Waits for a command and answers it with this output.
    pub(crate) async fn answer(&mut self, stdout: &str) {
        let actions = self.next().await.expect("a command");
        let [AgentAction::Run { call, .. }] = &actions[..] else { panic!("{actions:?}") };
        let ran =
            RanCommand { stdout: stdout.to_owned(), stderr: String::new(), exit_code: 0, truncated: false };
        let finished = self.machine.on_finished(*call, CommandOutcome::Ran(ran));
        self.send(finished).await;
    }
}
