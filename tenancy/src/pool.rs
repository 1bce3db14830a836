//! The pool of connections of `coreci_app`. It is private: [`TenantTx`] is the only way in.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use mcp_core::id::TenantId;
use tokio::time::timeout;
use tokio_postgres::{Config, NoTls};

use crate::error::TenancyError;
use crate::lookup::Lookup;
use crate::tx::TenantTx;

/// How long a caller waits for a connection before it is told that the database is not available (C-L06).
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// The door to tenant data. Cheap to clone; all clones share one pool.
#[derive(Clone)]
pub struct Tenancy {
    pool: Pool,
}

/// How many connections the pool may open, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize(usize);

impl PoolSize {
    /// A pool of at most `connections`; zero is taken as one.
    #[must_use]
    pub const fn new(connections: usize) -> Self {
        Self(if connections == 0 { 1 } else { connections })
    }
}

impl Default for PoolSize {
    fn default() -> Self {
        Self(16)
    }
}

impl Tenancy {
    /// Prepares a pool for `coreci_app`. Opens no connection yet, so that a process can start before its database.
    /// Whether the role is fit for use is [`crate::preflight::check`]'s question.
    #[must_use]
    pub fn connect(app: &Config, size: PoolSize) -> Self {
        // "Fast": `TenantTx` resets the session at its beginning, in the round trip that it needs anyway.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(app.clone(), NoTls, recycling);
        let limits = Timeouts {
            wait: Some(ACQUIRE_TIMEOUT),
            create: Some(ACQUIRE_TIMEOUT),
            recycle: Some(ACQUIRE_TIMEOUT),
        };
        let pool = Pool::builder(manager)
            .max_size(size.0)
            .timeouts(limits)
            .runtime(Runtime::Tokio1)
            .build()
            .expect("timeouts have a runtime, the one thing the builder checks");
        Self { pool }
    }

    /// Begins a transaction of `tenant`.
    ///
    /// # Errors
    /// [`TenancyError::DatabaseUnavailable`] when no connection is free, or the database does not answer, within 2 s.
    ///
    /// # Cancellation
    /// Dropping the future returns or discards whatever connection it had taken.
    pub async fn tx(&self, tenant: TenantId) -> Result<TenantTx, TenancyError> {
        let begun = async { TenantTx::begin(self.acquire().await?, tenant).await };
        timeout(ACQUIRE_TIMEOUT, begun).await.unwrap_or_else(|_| Err(self.too_late()))
    }

    /// The few questions that come before a tenant is known.
    #[must_use]
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup::new(self)
    }

    /// Whether the database answers within 2 s, for a readiness probe.
    ///
    /// # Errors
    /// [`TenancyError::DatabaseUnavailable`] when it does not.
    pub async fn ping(&self) -> Result<(), TenancyError> {
        let answered = async { Ok(self.acquire().await?.batch_execute("select 1").await?) };
        timeout(ACQUIRE_TIMEOUT, answered).await.unwrap_or_else(|_| Err(self.too_late()))
    }

    /// How many connections are open and how many of them are idle, for metrics.
    #[must_use]
    pub fn pool_usage(&self) -> PoolUsage {
        let status = self.pool.status();
        PoolUsage { open: status.size, idle: status.available, waiting: status.waiting }
    }

    /// Closes the pool: idle connections end now, borrowed ones when they come back.
    pub fn close(&self) {
        self.pool.close();
    }

    /// After a silence the idle connections are suspect, too: dropping them spares the next callers the same wait.
    pub(crate) fn too_late(&self) -> TenancyError {
        self.pool.retain(|_, _| false);
        TenancyError::timed_out("the database did not answer within 2 s")
    }

    /// For [`TenantTx`] and [`Lookup`] alone.
    pub(crate) async fn acquire(&self) -> Result<Object, TenancyError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place, and only TenantTx and Lookup are handed it"
        )]
        let object = self.pool.get().await?;
        Ok(object)
    }
}

impl std::fmt::Debug for Tenancy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenancy").field("pool", &self.pool.status()).finish()
    }
}

/// Connections of the pool at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// Open connections.
    pub open: usize,
    /// Open and not borrowed.
    pub idle: usize,
    /// Callers that wait for one.
    pub waiting: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;

    // proves: C-C03, C-C04
    #[tokio::test]
    async fn a_returned_connection_remembers_no_tenant() {
        let database = TestDatabase::new().await;
        let tenant = database.create_tenant("a").await;
        let tenancy = database.tenancy_of(PoolSize::new(1));
        for poison in [false, true] {
            let tx = tenancy.tx(tenant).await.unwrap();
            if poison {
                let session_wide = "select set_config('app.tenant_id', $1, $2)";
                tx.execute(session_wide, &[&tenant.to_string(), &!poison]).await.unwrap();
                tx.commit().await.unwrap();
                // What a store did against the rules is undone by the next borrower, whoever it is.
                tenancy.tx(TenantId::SYSTEM).await.unwrap().commit().await.unwrap();
            } else {
                tx.commit().await.unwrap();
            }
            let raw = tenancy.acquire().await.unwrap();
            let left = raw.query_one("select current_setting('app.tenant_id', true)", &[]).await.unwrap();
            assert_eq!(left.get::<_, Option<&str>>(0).unwrap_or_default(), "");
        }
    }
}
