//! Targets and tool policies in Postgres, and the adapters that this binary has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mcp_broker::transport::in_process::Link;
use mcp_core::adapter::{Adapter, AdapterDirectory, DirectoryError, Route, Target};
use mcp_core::adapter_config::{AdapterConfig, AdapterFactory};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::id::{TargetId, TenantId};
use mcp_core::policy::{PermittedCall, ToolPolicy};
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput};
use tenancy::stores::adapter::adapter_find;
use tenancy::stores::target::{target_find, target_list};
use tenancy::stores::tool_policy::tool_policy_get;
use tenancy::{Tenancy, TenancyError};

/// Targets of one kind that are looked through when a call names none. A call that has more to choose from is ambiguous
/// either way.
const CANDIDATES: u32 = 50;

/// Adapters that are kept built. A later call builds its own again.
const MOST_BUILT: usize = 1024;

/// An adapter whose stored configuration is no longer acceptable.
struct Unbuildable {
    kind: AdapterKind,
    code: ErrorCode,
}

#[async_trait]
impl Adapter for Unbuildable {
    fn kind(&self) -> AdapterKind {
        self.kind
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        Err(match self.code {
            ErrorCode::EgressDenied => AdapterError::EgressDenied,
            _ => AdapterError::Upstream("this adapter's configuration is not acceptable any more".to_owned()),
        })
    }
}

/// [`AdapterDirectory`] over tenant transactions.
pub(crate) struct PgDirectory {
    tenancy: Tenancy,
    ssh: Arc<dyn Adapter>,
    factory: Arc<dyn AdapterFactory>,
    /// Adapters that were built, each for one configuration of one tenant: none is ever shared.
    built: Mutex<HashMap<(TenantId, TargetId), Built>>,
}

struct Built {
    config_version: u64,
    adapter: Arc<dyn Adapter>,
}

impl PgDirectory {
    pub(crate) fn new(tenancy: Tenancy, ssh: Arc<dyn Adapter>, factory: Arc<dyn AdapterFactory>) -> Self {
        Self { tenancy, ssh: Arc::new(Link::register(ssh)), factory, built: Mutex::default() }
    }

    async fn find(
        &self,
        tenant: TenantId,
        kind: AdapterKind,
        wanted: Option<&str>,
    ) -> Result<Vec<Route>, TenancyError> {
        let tx = self.tenancy.tx(tenant).await?;
        let routes = match kind {
            AdapterKind::Ssh => {
                let targets = target_find(&tx, kind, wanted, CANDIDATES).await?;
                targets.into_iter().map(|target| self.host_route(tenant, target)).collect()
            }
            AdapterKind::Proxmox | AdapterKind::Github | AdapterKind::Gitea => {
                let adapters = adapter_find(&tx, kind, wanted, CANDIDATES).await?;
                adapters
                    .into_iter()
                    .map(|adapter| self.upstream_route(tenant, adapter))
                    .collect::<Result<_, _>>()?
            }
        };
        tx.commit().await?;
        Ok(routes)
    }

    fn host_route(&self, tenant: TenantId, target: tenancy::stores::target::Target) -> Route {
        Route {
            target: Target { tenant, id: target.target_id, name: target.name, kind: target.kind },
            adapter: Arc::clone(&self.ssh),
            credential: None,
            config_version: 0,
        }
    }

    fn upstream_route(
        &self,
        tenant: TenantId,
        stored: tenancy::stores::adapter::Adapter,
    ) -> Result<Route, TenancyError> {
        Ok(Route {
            adapter: self.build(tenant, &stored)?,
            target: Target { tenant, id: stored.target_id, name: stored.name, kind: stored.kind },
            credential: Some(stored.secret_ref),
            config_version: stored.config_version,
        })
    }

    fn build(
        &self,
        tenant: TenantId,
        stored: &tenancy::stores::adapter::Adapter,
    ) -> Result<Arc<dyn Adapter>, TenancyError> {
        let key = (tenant, stored.target_id);
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = built.get(&key).filter(|kept| kept.config_version == stored.config_version) {
            return Ok(Arc::clone(&kept.adapter));
        }
        let config: AdapterConfig = serde_json::from_value(stored.config.clone())
            .map_err(|error| TenancyError::Internal(Box::new(error)))?;
        let adapter: Arc<dyn Adapter> = match self.factory.build(&config) {
            Ok(adapter) => adapter,
            // The operator's policy has become stricter since it was configured: it is there, and answers so.
            Err(refused) => Arc::new(Unbuildable { kind: stored.kind, code: refused.code }),
        };
        let adapter: Arc<dyn Adapter> = Arc::new(Link::register(adapter));
        if built.len() >= MOST_BUILT {
            built.clear();
        }
        built.insert(key, Built { config_version: stored.config_version, adapter: Arc::clone(&adapter) });
        Ok(adapter)
    }

    async fn list(&self, tenant: TenantId, limit: u32) -> Result<Vec<Target>, TenancyError> {
        let tx = self.tenancy.tx(tenant).await?;
        let targets = target_list(&tx, None, limit).await?;
        tx.commit().await?;
        let named = |target: tenancy::stores::target::Target| Target {
            tenant,
            id: target.target_id,
            name: target.name,
            kind: target.kind,
        };
        Ok(targets.into_iter().map(named).collect())
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

    async fn targets(&self, tenant: TenantId, limit: u32) -> Result<Vec<Target>, DirectoryError> {
        self.list(tenant, limit).await.map_err(|error| DirectoryError(Box::new(error)))
    }

    async fn tool_policy(&self, tenant: TenantId) -> Result<ToolPolicy, DirectoryError> {
        self.policy(tenant).await.map_err(|error| DirectoryError(Box::new(error)))
    }
}
