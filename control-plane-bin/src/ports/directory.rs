//! Targets and tool policies in Postgres, and the adapters that this binary has.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_core::adapter::{Adapter, AdapterDirectory, DirectoryError, Route, Target};
use mcp_core::id::TenantId;
use mcp_core::policy::ToolPolicy;
use mcp_core::tool::{AdapterKind, ToolName};
use tenancy::stores::target::{TargetRef, target_get, target_list};
use tenancy::stores::tool_policy::tool_policy_get;
use tenancy::{Tenancy, TenancyError};

/// Targets of one kind that are looked through when a call names none. A call that has more to choose from is ambiguous
/// either way.
const CANDIDATES: u32 = 50;

/// [`AdapterDirectory`] over tenant transactions.
pub(crate) struct PgDirectory {
    tenancy: Tenancy,
    ssh: Arc<dyn Adapter>,
}

impl PgDirectory {
    pub(crate) fn new(tenancy: Tenancy, ssh: Arc<dyn Adapter>) -> Self {
        Self { tenancy, ssh }
    }

    fn adapter(&self, kind: AdapterKind) -> Option<Arc<dyn Adapter>> {
        match kind {
            AdapterKind::Ssh => Some(Arc::clone(&self.ssh)),
            AdapterKind::Proxmox | AdapterKind::Github | AdapterKind::Gitea => None,
        }
    }

    async fn find(
        &self,
        tenant: TenantId,
        kind: AdapterKind,
        wanted: Option<&str>,
    ) -> Result<Vec<Route>, TenancyError> {
        let Some(adapter) = self.adapter(kind) else { return Ok(Vec::new()) };
        let tx = self.tenancy.tx(tenant).await?;
        let targets = match wanted {
            Some(wanted) => match target_get(&tx, TargetRef::from(wanted)).await {
                Ok(target) => vec![target],
                Err(TenancyError::NotFound) => Vec::new(),
                Err(error) => return Err(error),
            },
            None => target_list(&tx, None, CANDIDATES).await?,
        };
        tx.commit().await?;
        let of_kind = targets.into_iter().filter(|target| target.kind == kind);
        let route = |target: tenancy::stores::target::Target| Route {
            target: Target { tenant, id: target.target_id, name: target.name, kind },
            adapter: Arc::clone(&adapter),
            credential: None,
            config_version: 0,
        };
        Ok(of_kind.map(route).collect())
    }

    async fn policy(&self, tenant: TenantId) -> Result<ToolPolicy, TenancyError> {
        let tx = self.tenancy.tx(tenant).await?;
        let disabled = tool_policy_get(&tx).await?;
        tx.commit().await?;
        Ok(ToolPolicy::disabling(disabled.iter().filter_map(|name| ToolName::parse(name))))
    }
}

#[async_trait]
impl AdapterDirectory for PgDirectory {
    async fn routes(
        &self,
        tenant: TenantId,
        kind: AdapterKind,
        wanted: Option<&str>,
    ) -> Result<Vec<Route>, DirectoryError> {
        self.find(tenant, kind, wanted).await.map_err(|error| DirectoryError(Box::new(error)))
    }

    async fn tool_policy(&self, tenant: TenantId) -> Result<ToolPolicy, DirectoryError> {
        self.policy(tenant).await.map_err(|error| DirectoryError(Box::new(error)))
    }
}
