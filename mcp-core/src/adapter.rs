//! The port that every adapter implements, and what the pipeline needs to find one.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{AdapterError, CallError};
use crate::id::{TargetId, TenantId};
use crate::policy::{PermittedCall, ToolPolicy};
use crate::secret::{SecretRef, SecretValue};
use crate::tool::{AdapterKind, ToolOutput};

/// Something that can be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Its id.
    pub id: TargetId,
    /// Its name, unique within the tenant.
    pub name: String,
    /// Which kind of adapter reaches it.
    pub kind: AdapterKind,
}

/// Runs permitted calls against one kind of upstream. An adapter can only read: nothing it is given can spell a write.
#[async_trait]
pub trait Adapter: Send + Sync {
    /// The kind of target it serves.
    fn kind(&self) -> AdapterKind;

    /// Whether the target can be asked right now, as far as is known without any I/O.
    ///
    /// # Errors
    /// [`CallError::TargetOffline`] when it cannot.
    fn ready(&self, target: &Target) -> Result<(), CallError> {
        let _ = target;
        Ok(())
    }

    /// Runs one call. The call is consumed: it is good for one run.
    ///
    /// The pipeline drops this future at the deadline of 10 s and when the caller goes away; an implementation must then
    /// stop the upstream's work within a second.
    async fn execute(
        &self,
        call: PermittedCall,
        credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError>;
}

/// A target together with the adapter that reaches it.
#[derive(Clone)]
pub struct Route {
    /// What is looked at.
    pub target: Target,
    /// How it is reached.
    pub adapter: Arc<dyn Adapter>,
    /// Where its credential lies, when it needs one.
    pub credential: Option<SecretRef>,
    /// Rises with every change of the adapter's configuration; part of every cache key.
    pub config_version: u64,
}

/// The tenant's configuration cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the tenant's configuration cannot be read")]
pub struct DirectoryError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Knows the targets of tenants and what each tenant has switched off.
#[async_trait]
pub trait AdapterDirectory: Send + Sync {
    /// The routes of one kind within one tenant: the one of this id or name, or all when none is wanted. A target of
    /// another tenant is not there.
    async fn routes(
        &self,
        tenant: TenantId,
        kind: AdapterKind,
        wanted: Option<&str>,
    ) -> Result<Vec<Route>, DirectoryError>;

    /// The tenant's targets of every kind, by name, `limit` at most.
    async fn targets(&self, tenant: TenantId, limit: u32) -> Result<Vec<Target>, DirectoryError>;

    /// What the tenant has switched off.
    async fn tool_policy(&self, tenant: TenantId) -> Result<ToolPolicy, DirectoryError>;
}
