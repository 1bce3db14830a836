//! A transaction that belongs to one tenant: the only way to tenant data (INV-2).

use std::time::Duration;

use deadpool_postgres::Object;
use mcp_core::id::TenantId;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::error::TenancyError;

/// `RESET ALL` drops whatever a former borrower may have set for its session. It shares a message with `BEGIN`.
const BEGIN: &str = "reset all; begin";
const SET_TENANT: &str = "select set_config('app.tenant_id', $1, true)";
/// `COMMIT` of a failed transaction answers "ROLLBACK" and no error. The `select` before it fails in that case, so that
/// a store which swallowed an error cannot take a rollback for a commit.
const COMMIT: &str = "select; commit";
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Behind the role's own `statement_timeout` of 10 s, for a server that is too far gone to keep it. A network that
/// swallows packets is noticed sooner, by the connection's `tcp_user_timeout`.
const STATEMENT_BACKSTOP: Duration = Duration::from_secs(12);

/// An open transaction in which row-level security lets only one tenant's rows be seen and written.
///
/// Dropping it without [`TenantTx::commit`] rolls back: the connection goes to a background task that returns it to the
/// pool after the rollback, or closes it when the rollback fails or no runtime is left.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct TenantTx {
    connection: Unclean,
    tenant: TenantId,
}

impl TenantTx {
    pub(crate) async fn begin(object: Object, tenant: TenantId) -> Result<Self, TenancyError> {
        let set_tenant = object.prepare_cached(SET_TENANT).await?;
        // From here on the connection may be inside a transaction, whatever happens to this future.
        let tx = Self { connection: Unclean(Some(object)), tenant };
        let id = tenant.to_string();
        let params: [&(dyn ToSql + Sync); 1] = [&id];
        // Both messages leave before the first answer arrives: one round trip.
        tokio::try_join!(tx.client().batch_execute(BEGIN), tx.client().execute(&set_tenant, &params))?;
        Ok(tx)
    }

    /// The tenant whose rows this transaction sees.
    #[must_use]
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The connection itself, for what the methods below do not cover. Transaction control through it is a defect.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.connection.object()
    }

    /// Runs a statement that is prepared once per connection. SQL is always a literal.
    ///
    /// # Errors
    /// As [`TenancyError`] sorts them. The transaction has then failed: nothing but dropping it is left.
    pub async fn query(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TenancyError> {
        let object = self.connection.object();
        bounded(async { object.query(&object.prepare_cached(sql).await?, params).await }).await
    }

    /// Like [`TenantTx::query`], for at most one row.
    ///
    /// # Errors
    /// As [`TenantTx::query`]; more than one row is [`TenancyError::Internal`].
    pub async fn query_opt(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, TenancyError> {
        let object = self.connection.object();
        bounded(async { object.query_opt(&object.prepare_cached(sql).await?, params).await }).await
    }

    /// Like [`TenantTx::query`], for exactly one row.
    ///
    /// # Errors
    /// [`TenancyError::NotFound`] when there is none; otherwise as [`TenantTx::query_opt`].
    pub async fn query_one(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, TenancyError> {
        self.query_opt(sql, params).await?.ok_or(TenancyError::NotFound)
    }

    /// Like [`TenantTx::query`], for the number of rows that were changed.
    ///
    /// # Errors
    /// As [`TenantTx::query`].
    pub async fn execute(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, TenancyError> {
        let object = self.connection.object();
        bounded(async { object.execute(&object.prepare_cached(sql).await?, params).await }).await
    }

    /// Commits. When this returns `Ok` the changes are durable.
    ///
    /// # Errors
    /// [`TenancyError::DatabaseUnavailable`] leaves it open whether the commit happened (the connection may have broken
    /// after it): look for the row before trying again. Any other error means that nothing was stored.
    ///
    /// # Cancellation
    /// A dropped future may have committed or not.
    pub async fn commit(self) -> Result<(), TenancyError> {
        bounded(self.client().batch_execute(COMMIT)).await?;
        self.connection.clean();
        Ok(())
    }

    /// Rolls back and waits for it; dropping the transaction does the same in the background.
    ///
    /// # Errors
    /// When the database does not confirm it. The connection is then closed, which rolls back as well.
    pub async fn rollback(self) -> Result<(), TenancyError> {
        bounded(self.client().batch_execute("rollback")).await?;
        self.connection.clean();
        Ok(())
    }
}

impl std::fmt::Debug for TenantTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantTx").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

async fn bounded<T>(
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, TenancyError> {
    match timeout(STATEMENT_BACKSTOP, statement).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(TenancyError::timed_out("a statement was not answered within 12 s")),
    }
}

/// A connection that may be inside a transaction, so it must not reach the pool as it is.
struct Unclean(Option<Object>);

impl Unclean {
    fn object(&self) -> &Object {
        self.0.as_ref().expect("taken only by clean and drop, which consume it")
    }

    /// Gives the connection back to the pool: its transaction is over.
    fn clean(mut self) {
        self.0 = None;
    }
}

impl Drop for Unclean {
    fn drop(&mut self) {
        let Some(object) = self.0.take() else { return };
        let doomed = Doomed(Some(object));
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(doomed.roll_back());
    }
}

/// A connection on its way out: closed when dropped, unless the rollback succeeded. A runtime that shuts down drops the
/// task, and with it the connection, without returning it.
struct Doomed(Option<Object>);

impl Doomed {
    async fn roll_back(mut self) {
        let Some(object) = &self.0 else { return };
        match timeout(ROLLBACK_TIMEOUT, object.batch_execute("rollback")).await {
            Ok(Ok(())) => self.0 = None,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection was closed because it would not roll back")
            }
            Err(_) => tracing::debug!("a connection was closed because its rollback took too long"),
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}
