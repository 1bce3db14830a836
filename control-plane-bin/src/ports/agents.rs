//! The agent registry in Postgres.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_core::agent::{AgentRecord, AgentStore, AgentStoreError, Registration};
use mcp_core::audit::AuditSink;
use mcp_core::id::{AgentId, TenantId};
use mcp_core::relay::HostFacts;
use tenancy::stores::agent::{agent_get, agent_registered, agent_seen};
use tenancy::stores::tenant::{TenantStatus, tenant_get};
use tenancy::{Tenancy, TenancyError};

/// [`AgentStore`] over tenant transactions.
pub(crate) struct PgAgents {
    tenancy: Tenancy,
    audit: Arc<dyn AuditSink>,
}

impl PgAgents {
    pub(crate) fn new(tenancy: Tenancy, audit: Arc<dyn AuditSink>) -> Self {
        Self { tenancy, audit }
    }

    async fn find(&self, agent: AgentId) -> Result<Option<AgentRecord>, TenancyError> {
        let Some(tenant) = self.tenancy.lookup().agent(agent).await? else { return Ok(None) };
        let tx = self.tenancy.tx(tenant).await?;
        let found = agent_get(&tx, agent).await?;
        // The agents of a tenant that is suspended or gone are as good as revoked.
        let in_force = tenant_get(&tx).await?.status == TenantStatus::Active;
        tx.commit().await?;
        Ok(Some(AgentRecord {
            tenant,
            agent,
            target: found.target_id,
            public_key: found.public_key,
            revoked: found.revoked_at.is_some() || !in_force,
        }))
    }

    async fn register(
        &self,
        tenant: TenantId,
        agent: AgentId,
        facts: &HostFacts,
    ) -> Result<Registration, TenancyError> {
        let tx = self.tenancy.tx(tenant).await?;
        let (target, epoch) = agent_registered(&tx, agent, facts).await?;
        tx.commit().await?;
        self.audit.outbox_changed();
        Ok(Registration { target, epoch })
    }

    async fn seen(&self, tenant: TenantId, agent: AgentId, epoch: u64) -> Result<bool, TenancyError> {
        let tx = self.tenancy.tx(tenant).await?;
        let seen = agent_seen(&tx, agent, epoch).await?;
        tx.commit().await?;
        Ok(seen)
    }
}

#[async_trait]
impl AgentStore for PgAgents {
    async fn agent_find(&self, agent: AgentId) -> Result<Option<AgentRecord>, AgentStoreError> {
        match self.find(agent).await {
            Ok(found) => Ok(found),
            Err(TenancyError::NotFound) => Ok(None),
            Err(error) => Err(AgentStoreError(Box::new(error))),
        }
    }

    async fn agent_registered(
        &self,
        tenant: TenantId,
        agent: AgentId,
        facts: &HostFacts,
    ) -> Result<Option<Registration>, AgentStoreError> {
        match self.register(tenant, agent, facts).await {
            Ok(registration) => Ok(Some(registration)),
            Err(TenancyError::NotFound) => Ok(None),
            Err(error) => Err(AgentStoreError(Box::new(error))),
        }
    }

    async fn agent_seen(
        &self,
        tenant: TenantId,
        agent: AgentId,
        epoch: u64,
    ) -> Result<bool, AgentStoreError> {
        self.seen(tenant, agent, epoch).await.map_err(|error| AgentStoreError(Box::new(error)))
    }
}
