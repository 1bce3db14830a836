//! Proof that no other replica lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Config, NoTls};

/// Advisory locks are per database, so this number needs to be different only from our other ones.
const TAKE: &str = "select pg_try_advisory_lock(4990340002)";
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// A session-level advisory lock, held for as long as this value and its connection live.
///
/// When the connection is lost, so is the lock; it is then taken again, with a new connection, until that succeeds.
/// [`InstanceLease::is_held`] tells.
#[derive(Debug)]
pub struct InstanceLease {
    held: Arc<AtomicBool>,
    keeper: JoinHandle<()>,
}

/// The lease could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another replica runs.
    #[error(
        "another control plane is running on this database: stop it first, or wait a few seconds if it has just been killed"
    )]
    HeldByAnother,
    /// The database did not let us try.
    #[error("the database could not be asked for the lease")]
    Database(#[source] tokio_postgres::Error),
    /// The database did not answer.
    #[error("the database did not answer in time")]
    TimedOut,
}

impl InstanceLease {
    /// Takes the lease, trying for ten seconds: a predecessor may still be shutting down. `database` logs in as
    /// `coreci_audit`.
    ///
    /// # Errors
    /// What the last try ran into.
    pub async fn acquire(database: &Config) -> Result<Self, LeaseError> {
        Self::acquire_within(database, PATIENCE).await
    }

    /// As [`InstanceLease::acquire`], with another patience. At least one try is made.
    ///
    /// # Errors
    /// What the last try ran into.
    pub async fn acquire_within(database: &Config, patience: Duration) -> Result<Self, LeaseError> {
        let until = Instant::now() + patience;
        let taken = loop {
            match take(database).await {
                Ok(taken) => break taken,
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => sleep(RETRY).await,
            }
        };
        let held = Arc::new(AtomicBool::new(true));
        let keeper = tokio::spawn(keep(database.clone(), taken, Arc::clone(&held)));
        Ok(Self { held, keeper })
    }

    /// Whether the lease is held now, as far as this process knows.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }
}

impl Drop for InstanceLease {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// A client and the task that drives its connection, which ends when the connection does.
struct Taken {
    _client: Client,
    driver: Driver,
}

struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn take(database: &Config) -> Result<Taken, LeaseError> {
    let attempt = async {
        let (client, connection) = database.connect(NoTls).await.map_err(LeaseError::Database)?;
        let driver = Driver(tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection of the instance lease ended");
            }
        }));
        let taken: bool = client.query_one(TAKE, &[]).await.map_err(LeaseError::Database)?.get(0);
        if taken { Ok(Taken { _client: client, driver }) } else { Err(LeaseError::HeldByAnother) }
    };
    timeout(STEP_LIMIT, attempt).await.unwrap_or(Err(LeaseError::TimedOut))
}

async fn keep(database: Config, mut taken: Taken, held: Arc<AtomicBool>) {
    loop {
        let _ = (&mut taken.driver.0).await;
        held.store(false, Ordering::SeqCst);
        tracing::error!("the instance lease was lost with its connection; taking it again");
        taken = loop {
            match take(&database).await {
                Ok(taken) => break taken,
                Err(error) => tracing::warn!(%error, "the instance lease could not be taken again"),
            }
            sleep(RETRY * 5).await;
        };
        held.store(true, Ordering::SeqCst);
        tracing::info!("the instance lease is held again");
    }
}
