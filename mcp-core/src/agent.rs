//! The port of the agent registry: what the relay hub needs to know about agents.

use async_trait::async_trait;

use crate::id::{AgentId, TargetId, TenantId};
use crate::relay::HostFacts;

/// An enrolled agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecord {
    /// The tenant it belongs to; its key decides, never what it says.
    pub tenant: TenantId,
    /// Its id.
    pub agent: AgentId,
    /// The host it stands for.
    pub target: TargetId,
    /// Its Ed25519 public key.
    pub public_key: [u8; 32],
    /// True once it was revoked; the id stays dead.
    pub revoked: bool,
}

/// A registration that is now the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The host.
    pub target: TargetId,
    /// Rises with every registration; a link of a smaller epoch is stale.
    pub epoch: u64,
}

/// The registry cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the agent registry is unavailable")]
pub struct AgentStoreError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Knows enrolled agents.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// The agent of this id, revoked or not.
    async fn agent_find(&self, agent: AgentId) -> Result<Option<AgentRecord>, AgentStoreError>;

    /// Records a registration and hands out the next epoch; `None` when the agent was revoked meanwhile.
    async fn agent_registered(
        &self,
        tenant: TenantId,
        agent: AgentId,
        facts: &HostFacts,
    ) -> Result<Option<Registration>, AgentStoreError>;

    /// Notes that a registered agent was heard from; `false` when it was revoked or registered anew meanwhile, so that
    /// this link must end.
    async fn agent_seen(&self, tenant: TenantId, agent: AgentId, epoch: u64)
    -> Result<bool, AgentStoreError>;
}
