//! A directory of targets that is filled by hand.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use mcp_core::adapter::{AdapterDirectory, DirectoryError, Route, Target};
use mcp_core::id::TenantId;
use mcp_core::policy::ToolPolicy;
use mcp_core::tool::AdapterKind;

use crate::transport::in_process::Link;

/// Targets and tool policies in memory.
#[derive(Default)]
pub struct MemoryDirectory {
    routes: RwLock<Vec<Route>>,
    policies: RwLock<HashMap<TenantId, ToolPolicy>>,
}

impl MemoryDirectory {
    /// Adds a target and registers its adapter.
    pub fn add(&self, route: Route) {
        let route = Route { adapter: Arc::new(Link::register(route.adapter)), ..route };
        self.routes.write().unwrap_or_else(PoisonError::into_inner).push(route);
    }

    /// Replaces a tenant's policy.
    pub fn set_policy(&self, tenant: TenantId, policy: ToolPolicy) {
        self.policies.write().unwrap_or_else(PoisonError::into_inner).insert(tenant, policy);
    }
}

#[async_trait]
impl AdapterDirectory for MemoryDirectory {
    async fn routes(
        &self,
        tenant: TenantId,
        kind: AdapterKind,
        wanted: Option<&str>,
    ) -> Result<Vec<Route>, DirectoryError> {
        let matches = |route: &&Route| {
            let target = &route.target;
            target.tenant == tenant
                && target.kind == kind
                && wanted.is_none_or(|wanted| target.name == wanted || target.id.to_string() == wanted)
        };
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        Ok(routes.iter().filter(matches).cloned().collect())
    }

    async fn targets(&self, tenant: TenantId, limit: u32) -> Result<Vec<Target>, DirectoryError> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let own = routes.iter().map(|route| &route.target).filter(|target| target.tenant == tenant);
        let mut targets: Vec<Target> = own.cloned().collect();
        targets.sort_by(|one, other| one.name.cmp(&other.name));
        targets.truncate(limit as usize);
        Ok(targets)
    }

    async fn tool_policy(&self, tenant: TenantId) -> Result<ToolPolicy, DirectoryError> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        Ok(policies.get(&tenant).cloned().unwrap_or_default())
    }
}
