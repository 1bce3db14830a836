//! What this process needs in order to serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use audit::PostgresAudit;
use audit::lease::InstanceLease;
use http_api::{Readiness, ReadyCheck};
use tenancy::Tenancy;

/// Database, audit writer, the lease that keeps a second replica away, and whether we are going down.
pub(crate) struct SystemReadiness {
    tenancy: Tenancy,
    audit: Arc<PostgresAudit>,
    lease: Arc<InstanceLease>,
    draining: Arc<AtomicBool>,
}

impl SystemReadiness {
    pub(crate) fn new(
        tenancy: Tenancy,
        audit: Arc<PostgresAudit>,
        lease: Arc<InstanceLease>,
        draining: Arc<AtomicBool>,
    ) -> Self {
        Self { tenancy, audit, lease, draining }
    }
}

#[async_trait]
impl Readiness for SystemReadiness {
    async fn checks(&self) -> Vec<ReadyCheck> {
        let database = self.tenancy.ping().await.is_ok();
        let check = |name, ok| ReadyCheck { name, ok };
        vec![
            check("database", database),
            check("audit", self.audit.health().writable),
            check("lease", self.lease.is_held()),
            check("serving", !self.draining.load(Ordering::SeqCst)),
        ]
    }
}
