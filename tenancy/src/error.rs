//! What can go wrong with the database, sorted by what a caller can do about it.

use tokio_postgres::error::SqlState;

/// A failure of a tenant transaction. Variants say what the caller can do; the database's own words are in `source`,
/// for the log only: they may quote values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TenancyError {
    /// The database cannot be reached, is shutting down, is full, is read-only, or a lock or statement took too long.
    /// Trying again later can help.
    #[error("the database is not available")]
    DatabaseUnavailable(#[source] Option<Box<dyn std::error::Error + Send + Sync>>),
    /// Something with that name or key is already there.
    #[error("it already exists")]
    Conflict {
        /// The constraint that was hit, when the database names it.
        constraint: Option<String>,
    },
    /// A value cannot be stored: malformed, too long, out of range, or it breaks a rule of its column.
    #[error("a value cannot be stored")]
    Invalid(#[source] Option<Box<tokio_postgres::Error>>),
    /// There is no such thing in this tenant. Whether another tenant has one is never said.
    #[error("there is no such thing in this tenant")]
    NotFound,
    /// Row-level security or a missing grant refused the statement.
    #[error("the database refused access")]
    Denied(#[source] Box<tokio_postgres::Error>),
    /// A defect of ours: wrong SQL, a wrong type, a transaction used after it had failed.
    #[error("an internal database error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TenancyError {
    /// True when trying again later can help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::DatabaseUnavailable(_))
    }

    pub(crate) fn timed_out(what: &'static str) -> Self {
        Self::DatabaseUnavailable(Some(what.into()))
    }
}

impl From<tokio_postgres::Error> for TenancyError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            return without_state(error);
        };
        match kind(state) {
            Kind::Unavailable => Self::DatabaseUnavailable(Some(Box::new(error))),
            Kind::Conflict => Self::Conflict {
                constraint: error.as_db_error().and_then(|db| db.constraint()).map(str::to_owned),
            },
            Kind::Invalid => Self::Invalid(Some(Box::new(error))),
            Kind::NotFound => Self::NotFound,
            Kind::Denied => Self::Denied(Box::new(error)),
            Kind::Internal => Self::Internal(Box::new(error)),
        }
    }
}

impl From<deadpool_postgres::PoolError> for TenancyError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        Self::DatabaseUnavailable(Some(Box::new(error)))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Conflict,
    Invalid,
    NotFound,
    Denied,
    Internal,
}

/// One line per state that means something to a caller; everything else is our own defect.
fn kind(state: &SqlState) -> Kind {
    match state.code() {
        "23505" => Kind::Conflict,
        "23503" => Kind::NotFound,
        "42501" => Kind::Denied,
        // Not null, check, exclusion; an index entry that does not fit.
        "23502" | "23514" | "23P01" | "54000" => Kind::Invalid,
        // A read-only standby, a lock or a statement that took too long, an idle transaction that was ended.
        "25006" | "25P03" | "55P03" | "57014" | "57P05" => Kind::Unavailable,
        // A plan that an ALTER TABLE made stale: the next connection prepares it anew.
        "0A000" => Kind::Internal,
        code => match code.get(..2) {
            // Data exceptions, among them NUL in text (22021).
            Some("22") => Kind::Invalid,
            // Connection, refused login, no such database, serialization and deadlock, resources, operator, system.
            Some("08" | "28" | "3D" | "40" | "53" | "57" | "58") => Kind::Unavailable,
            _ => Kind::Internal,
        },
    }
}

/// Errors that the client library raised itself: a broken connection, or a value it could not encode or decode.
fn without_state(error: tokio_postgres::Error) -> TenancyError {
    use std::error::Error as _;
    if error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()) {
        return TenancyError::DatabaseUnavailable(Some(Box::new(error)));
    }
    TenancyError::Internal(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-L05, C-L10, C-C07
    #[test]
    fn each_state_is_sorted_by_what_a_caller_can_do() {
        for (code, wanted) in [
            ("57P01", Kind::Unavailable),
            ("57P03", Kind::Unavailable),
            ("53300", Kind::Unavailable),
            ("53100", Kind::Unavailable),
            ("25006", Kind::Unavailable),
            ("55P03", Kind::Unavailable),
            ("57014", Kind::Unavailable),
            ("40P01", Kind::Unavailable),
            ("08006", Kind::Unavailable),
            ("23505", Kind::Conflict),
            ("23503", Kind::NotFound),
            ("42501", Kind::Denied),
            ("22021", Kind::Invalid),
            ("22001", Kind::Invalid),
            ("23514", Kind::Invalid),
            ("54000", Kind::Invalid),
            ("42P01", Kind::Internal),
            ("25P02", Kind::Internal),
            ("XX000", Kind::Internal),
        ] {
            assert_eq!(kind(&SqlState::from_code(code)), wanted, "{code}");
        }
    }
}
