//! What a failed transaction means for what was in it.

use tokio_postgres::error::{Severity, SqlState};

/// Why a batch was not written, sorted by what to do about it. The text is for operators; it never quotes a row.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// One of its rows cannot be written; the others can. Nothing of it was committed.
    #[error("a row was refused: {0}")]
    Row(String),
    /// The server would not write now. Nothing of the batch was committed; the session can go on.
    #[error("the server refused to write: {0}")]
    Server(String),
    /// The session is gone. Whether the batch was committed is not known.
    #[error("the connection was lost: {0}")]
    Lost(String),
}

impl Failure {
    /// A label for the metric.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Row(_) => "row",
            Self::Server(_) => "server",
            Self::Lost(_) => "connection",
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else { return Self::Lost(error.to_string()) };
        let code = server.code();
        // The detail of a database error may quote the row; the message does not.
        let text = format!("{} ({})", server.message(), code.code());
        // A server that has become read-only is a standby now: the next connection may find the new primary.
        let ends_session = *code == SqlState::READ_ONLY_SQL_TRANSACTION
            || matches!(server.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        match code.code().get(..2) {
            _ if ends_session => Self::Lost(text),
            // Data exceptions and violated constraints.
            Some("22" | "23") => Self::Row(text),
            _ => Self::Server(text),
        }
    }
}
