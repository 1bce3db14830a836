//! Which database this process uses: one that somebody else runs, or the embedded server.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use tenancy::connections::{Connections, ConnectionsError};
use tenancy::embedded::{EmbeddedConfig, EmbeddedError, EmbeddedServer, PgBinaries, SuperviseCommand};
use tenancy::migrate::{MigrateError, RolePasswords, bootstrap_roles, migrate};

use crate::config::Environment;
use crate::data_dir::DataDir;

/// The hidden first argument with which the embedded server's supervisor starts us again.
pub(crate) const SUPERVISED: &str = "__supervised";

/// Where the database is. Without a URL the embedded server is used.
#[derive(Debug, Clone, Default, Args)]
pub struct DatabaseSource {
    /// URL of the database as coreci_app; without it an embedded server is used.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// The same database as coreci_audit.
    #[arg(long, env = "CORECI_AUDIT_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub audit_database_url: Option<String>,
    /// The same database as coreci_migrator; needed by `migrate` only.
    #[arg(long, env = "CORECI_MIGRATOR_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub migrator_database_url: Option<String>,
    /// The same database as a role that may create roles; needed by the first `migrate` only.
    #[arg(long, env = "CORECI_ADMIN_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub admin_database_url: Option<String>,
    /// Directory with the server programs of the embedded database.
    #[arg(long, env = "CORECI_PG_BIN", value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
}

/// The database cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Only one of the two runtime URLs is set.
    #[error(
        "DATABASE_URL is set, so CORECI_AUDIT_DATABASE_URL is needed as well: the same database as coreci_audit"
    )]
    AuditUrlMissing,
    /// A URL cannot be used.
    #[error(transparent)]
    Connections(#[from] ConnectionsError),
    /// The embedded server does not run.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The schema cannot be brought up to date.
    #[error("the database schema could not be brought up to date")]
    Migrate(#[from] MigrateError),
    /// `migrate` without the right to.
    #[error("migrating needs CORECI_MIGRATOR_DATABASE_URL: the same database as coreci_migrator")]
    MigratorUrlMissing,
    /// Roles cannot be given their passwords.
    #[error("the {0} database URL names no password, and the role is to be given one")]
    PasswordMissing(&'static str),
}

/// A database that is there for as long as this value lives.
pub struct Database {
    /// How to connect, by role.
    pub connections: Connections,
    embedded: Option<EmbeddedServer>,
}

impl Database {
    /// Opens the database for a server: an external one as it is, or the embedded one, started and migrated.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn open(
        source: &DatabaseSource,
        data: &DataDir,
        environment: &Environment,
    ) -> Result<Self, DatabaseError> {
        if let Some(connections) = source.external()? {
            return Ok(Self { connections, embedded: None });
        }
        let binaries = PgBinaries::find(data.path(), source.pg_bin.as_deref(), environment.path.as_deref())?;
        let supervise = SuperviseCommand {
            // Unlike our own path, this one can be executed by the user that Postgres runs as.
            program: PathBuf::from("/proc/self/exe"),
            args: vec![OsString::from(SUPERVISED)],
        };
        let config = EmbeddedConfig { data_dir: data.path().to_owned(), binaries, supervise };
        let server = EmbeddedServer::start(config).await?;
        let connections = server.connections().clone();
        if let Some(migrator) = &connections.migrator {
            migrate(migrator).await?;
        }
        Ok(Self { connections, embedded: Some(server) })
    }

    /// Opens the database for one command: through the socket of a server that runs already, or as [`Database::open`].
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn attach_or_open(
        source: &DatabaseSource,
        data: &DataDir,
        environment: &Environment,
    ) -> Result<Self, DatabaseError> {
        if source.database_url.is_none()
            && let Some(connections) = EmbeddedServer::attach(data.path())?
        {
            return Ok(Self { connections, embedded: None });
        }
        Self::open(source, data, environment).await
    }

    /// Whether this process runs the embedded server.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Stops the embedded server, if this process started it.
    pub async fn close(self) {
        if let Some(server) = self.embedded {
            server.stop().await;
        }
    }
}

impl DatabaseSource {
    fn external(&self) -> Result<Option<Connections>, DatabaseError> {
        let Some(app) = &self.database_url else { return Ok(None) };
        let audit = self.audit_database_url.as_deref().ok_or(DatabaseError::AuditUrlMissing)?;
        let migrator = self.migrator_database_url.as_deref();
        Ok(Some(Connections::from_urls(app, audit, migrator, self.admin_database_url.as_deref())?))
    }

    /// Brings an external database up to date: roles first, when an administrator's URL is given, with the passwords that
    /// stand in the roles' own URLs; then the schema. Answers with the schema's version.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn migrate(&self) -> Result<Option<i32>, DatabaseError> {
        let Some(connections) = self.external()? else { return Ok(None) };
        let migrator = connections.migrator.as_ref().ok_or(DatabaseError::MigratorUrlMissing)?;
        if let Some(admin) = &connections.admin {
            let passwords = RolePasswords {
                migrator: password("migrator", migrator)?,
                app: password("app", &connections.app)?,
                audit: password("audit", &connections.audit)?,
            };
            bootstrap_roles(admin, &passwords).await?;
        }
        Ok(Some(migrate(migrator).await?.schema))
    }
}

fn password(role: &'static str, config: &tokio_postgres::Config) -> Result<String, DatabaseError> {
    let bytes = config.get_password().ok_or(DatabaseError::PasswordMissing(role))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| DatabaseError::PasswordMissing(role))
}
