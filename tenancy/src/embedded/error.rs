//! Why an embedded server cannot run. Each text is one sentence that says what to do.

use std::path::PathBuf;

use crate::migrate::MigrateError;

/// The embedded server could not be found, prepared, started or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// No server binaries on this machine.
    #[error(
        "no Postgres server was found (looked in {looked}): install one (Debian, Ubuntu: `apt install postgresql`; \
         Fedora: `dnf install postgresql-server`; Alpine: `apk add postgresql`), or point CORECI_PG_BIN at the \
         directory that holds `postgres` and `initdb`, or set DATABASE_URL to use a server that you run yourself"
    )]
    NoBinaries {
        /// Where was looked.
        looked: String,
    },
    /// CORECI_PG_BIN does not lead to a server.
    #[error(
        "CORECI_PG_BIN is {path}, but there is no `postgres` with an `initdb` beside it in that directory"
    )]
    BadConfiguredBinaries {
        /// What was configured.
        path: PathBuf,
    },
    /// The data directory belongs to another major version.
    #[error(
        "the data in {data_dir} was written by Postgres {data}, but only Postgres {found} is installed: install \
         Postgres {data}, or move the data with `control-plane backup` on the old installation and `control-plane \
         restore` on this one"
    )]
    MajorMismatch {
        /// The data directory.
        data_dir: PathBuf,
        /// Its version.
        data: u32,
        /// What is installed.
        found: String,
    },
    /// A version that is not tested.
    #[error("{path} is Postgres {found}; 15 to 18 are supported")]
    UnsupportedMajor {
        /// The binary's directory.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A directory or file could not be prepared.
    #[error("cannot {action} {path}: make the data directory writable for this user, or choose another one")]
    Unwritable {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// Postgres refuses to run as root, and the user it would run as cannot reach the data.
    #[error(
        "user `{user}`, as which Postgres has to run because root may not, cannot enter {path}: choose a data directory \
         such as /var/lib/coreci, or allow it with `chmod o+x {path}`"
    )]
    Unreachable {
        /// The user.
        user: String,
        /// The directory that stops it.
        path: PathBuf,
    },
    /// Running as root, without a user to run Postgres as.
    #[error(
        "Postgres may not run as root, and there is neither a user `postgres` nor `nobody`: create one of them"
    )]
    NoServerUser,
    /// Somebody else's directory stands where the socket has to be.
    #[error(
        "{path} is not a directory that only the server's user can enter: remove it, or use a shorter data directory"
    )]
    SocketDirectoryTaken {
        /// The directory.
        path: PathBuf,
    },
    /// Another process runs this data directory.
    #[error(
        "the embedded database in {data_dir} is in use by another process: stop it first, or attach to it"
    )]
    AlreadyRunning {
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The passwords are missing, or not readable.
    #[error(
        "{path} cannot be read, and the roles' passwords are in it: restore it from a backup, and run as the user that \
         runs the server"
    )]
    Passwords {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// `initdb` failed. Nothing of it was kept.
    #[error("creating the database failed, nothing was kept: {output}")]
    Initdb {
        /// Its last words.
        output: String,
    },
    /// A program could not be started.
    #[error("cannot run {program}: check that it exists and that the server's user may execute it")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The server ended instead of becoming ready, or did not become ready in time.
    #[error("the database server did not become ready; see {log}: {output}")]
    NotReady {
        /// Its log file.
        log: PathBuf,
        /// Its last words.
        output: String,
    },
    /// The server runs, but its database or roles could not be prepared.
    #[error("the embedded database could not be prepared")]
    Prepare(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<MigrateError> for EmbeddedError {
    fn from(error: MigrateError) -> Self {
        Self::Prepare(Box::new(error))
    }
}
