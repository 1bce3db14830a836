//! An embedded server, from the outside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{oneshot, watch};

use super::binaries::PgBinaries;
use super::error::EmbeddedError;
use super::initdb::ensure_cluster;
use super::layout::Layout;
use super::postmaster::PidFile;
use super::secrets_file::{DATABASE, Passwords};
use super::supervised::SuperviseCommand;
use super::supervisor::{EmbeddedStatus, Plan, Supervisor};
use super::user::ServerUser;
use crate::connections::Connections;
use crate::migrate::bootstrap_roles;
use crate::session;

const PORT: u16 = 5432;
/// How long a start waits for a process that is just ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How long a fast shutdown may take before it is cut short.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What an embedded server needs to know.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// Where its data, socket, passwords and log are.
    pub data_dir: PathBuf,
    /// The programs to run.
    pub binaries: PgBinaries,
    /// How to start a child that dies with this process.
    pub supervise: SuperviseCommand,
}

/// A running server that ends with this process. It is started again when it dies; [`EmbeddedServer::status`] tells.
pub struct EmbeddedServer {
    supervisor: Supervisor,
    connections: Connections,
}

impl EmbeddedServer {
    /// Starts the server, creating its data on the first time, and makes sure that database and roles are there. The
    /// schema is [`crate::migrate::migrate`]'s business.
    ///
    /// # Errors
    /// [`EmbeddedError`]; each says in one sentence what to do. A failed first start leaves nothing half-made.
    ///
    /// # Cancellation
    /// Dropping the future stops the server; what was created stays and is used by the next start.
    pub async fn start(config: EmbeddedConfig) -> Result<Self, EmbeddedError> {
        let layout = Layout::new(&config.data_dir);
        let user = ServerUser::choose()?;
        layout.create(user.as_ref())?;
        let lock = take_lock(&layout).await?;
        let prepared = {
            let (layout, binaries, user) = (layout.clone(), config.binaries.clone(), user.clone());
            tokio::task::spawn_blocking(move || {
                let passwords = ensure_cluster(&layout, &binaries, user.as_ref())?;
                Ok::<_, EmbeddedError>((passwords, layout.create_socket_dir(user.as_ref())?))
            })
        };
        let (passwords, socket_dir) =
            prepared.await.map_err(|error| EmbeddedError::Prepare(Box::new(error)))??;

        let connections = passwords.connections(&socket_dir, PORT);
        let (first, ready) = oneshot::channel();
        let supervise = config.supervise;
        let program = supervise.program.clone();
        let plan = Plan { layout, binaries: config.binaries, supervise, socket_dir, user };
        let supervisor = Supervisor::spawn(plan, lock, first)
            .map_err(|source| EmbeddedError::Spawn { program, source })?;
        let server = Self { supervisor, connections };
        ready.await.map_err(|_| EmbeddedError::Prepare("the supervising thread ended".into()))??;
        create_database(&server.connections).await?;
        if let Some(admin) = &server.connections.admin {
            bootstrap_roles(admin, &passwords.roles()).await?;
        }
        Ok(server)
    }

    /// Settings for a server that another process runs on `data_dir`, or `None` when none is running there.
    ///
    /// # Errors
    /// [`EmbeddedError::Passwords`] when one is running, but this user may not read its passwords.
    pub fn attach(data_dir: &Path) -> Result<Option<Connections>, EmbeddedError> {
        let layout = Layout::new(data_dir);
        match PidFile::read(&layout.data()) {
            Some(file) if file.ready && file.is_alive() && file.answers() => {
                Ok(Some(Passwords::read(&layout)?.connections(&file.socket_dir, file.port)))
            }
            _ => Ok(None),
        }
    }

    /// How to connect. The settings stay valid when the server is started again.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// What the server is doing, now and from now on.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<EmbeddedStatus> {
        self.supervisor.status()
    }

    /// Stops the server and waits for it: open transactions are rolled back, and a checkpoint is written. Cut short after
    /// 30 s, which costs nothing but a longer next start.
    ///
    /// # Cancellation
    /// The server stops all the same.
    pub async fn stop(self) {
        let mut status = self.supervisor.status();
        self.supervisor.stop(Signal::INT);
        let stopped = |now: &EmbeddedStatus| *now == EmbeddedStatus::Stopped;
        if tokio::time::timeout(STOP_PATIENCE, status.wait_for(stopped)).await.is_err() {
            self.supervisor.stop(Signal::QUIT);
            let _ = tokio::time::timeout(STOP_PATIENCE, status.wait_for(stopped)).await;
        }
    }
}

impl Drop for EmbeddedServer {
    /// Asks the server to stop, without waiting for it. After [`EmbeddedServer::stop`] there is nothing left to ask.
    fn drop(&mut self) {
        self.supervisor.stop(Signal::INT);
    }
}

impl std::fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedServer")
            .field("status", &*self.supervisor.status().borrow())
            .field("connections", &self.connections)
            .finish()
    }
}

/// Waits for a process that is just ending (or was killed, and whose server is ending).
async fn take_lock(layout: &Layout) -> Result<std::fs::File, EmbeddedError> {
    let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
    loop {
        if let Some(lock) = layout.lock()? {
            return Ok(lock);
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(EmbeddedError::AlreadyRunning { data_dir: layout.root().to_owned() });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn create_database(connections: &Connections) -> Result<(), EmbeddedError> {
    let Some(admin) = &connections.admin else { return Ok(()) };
    let mut maintenance = admin.clone();
    maintenance.dbname("postgres");
    let prepare = |error: tokio_postgres::Error| EmbeddedError::Prepare(Box::new(error));
    let client = session::open(&maintenance, CONNECT_TIMEOUT)
        .await
        .map_err(|error| EmbeddedError::Prepare(Box::new(error)))?;
    let exists = client
        .query_opt("select from pg_catalog.pg_database where datname = $1", &[&DATABASE])
        .await
        .map_err(prepare)?;
    if exists.is_none() {
        client.batch_execute("create database coreci").await.map_err(prepare)?;
    }
    Ok(())
}
