//! What a process checks before it serves: that the roles it was given are as weak as they have to be, and that the
//! database is one this binary knows.

use std::time::Duration;

use tokio_postgres::{Client, Config};

use crate::connections::Connections;
use crate::migrate::{MigrateError, schema_check_on};
use crate::session;

/// Server versions that the test suite runs on.
const MAJORS: std::ops::RangeInclusive<i32> = 15..=18;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The database is reachable, but not fit to serve from. Starting again without a change cannot help, except for
/// [`PreflightError::Unreachable`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// Not reachable now: a process may start and wait for it.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Row-level security does not hold for this role.
    #[error(
        "database role \"{role}\" {why}, so row-level security would not hold: \
         connect as a role that `control-plane migrate` has set up"
    )]
    RoleTooStrong {
        /// The role that the connection logged in as.
        role: String,
        /// What it may do.
        why: &'static str,
    },
    /// Not the role that the grants and policies are for; the URLs may have been swapped.
    #[error(
        "the database connection for {wanted} logs in as \"{role}\", which is not that role: \
         check the URL, or run `control-plane migrate` if the role was never created"
    )]
    WrongRole {
        /// The role that the connection logged in as.
        role: String,
        /// The role it has to be, or be a member of.
        wanted: &'static str,
    },
    /// A version that is not tested.
    #[error("the database server is Postgres {found}; 15 to 18 are supported")]
    UnsupportedServer {
        /// Its major version.
        found: i32,
    },
    /// The schema is not this binary's.
    #[error("the database schema does not fit")]
    Schema(#[source] MigrateError),
    /// A row was visible, or could be written, without a tenant.
    #[error("row-level security does not work on this database: {0}")]
    RlsOff(&'static str),
    /// A check itself failed.
    #[error("a start-up check of the database failed")]
    Check(#[source] tokio_postgres::Error),
}

/// Checks both runtime connections, the server's version, the schema, and that row-level security works.
///
/// # Errors
/// The first finding. Only [`PreflightError::Unreachable`] can pass by itself.
///
/// # Cancellation
/// It only reads: safe at any point.
pub async fn check(connections: &Connections) -> Result<(), PreflightError> {
    let app = open(&connections.app).await?;
    let audit = open(&connections.audit).await?;
    server_version(&app).await?;
    role_is_weak(&app).await?;
    role_is_weak(&audit).await?;
    role_is(&app, "coreci_app").await?;
    role_is(&audit, "coreci_audit").await?;
    schema_check_on(&app).await.map_err(PreflightError::Schema)?;
    rls_self_test(&app).await
}

async fn open(config: &Config) -> Result<Client, PreflightError> {
    session::open(config, CONNECT_TIMEOUT).await.map_err(|error| PreflightError::Unreachable(Box::new(error)))
}

async fn server_version(client: &Client) -> Result<(), PreflightError> {
    let sql = "select pg_catalog.current_setting('server_version_num')::int / 10000";
    let found = client.query_one(sql, &[]).await.map_err(PreflightError::Check)?.get(0);
    if MAJORS.contains(&found) { Ok(()) } else { Err(PreflightError::UnsupportedServer { found }) }
}

/// Looks at every role that this one is, or can become: a member of a strong role is a `SET ROLE` away from it.
async fn role_is_weak(client: &Client) -> Result<(), PreflightError> {
    let sql = "select session_user::text,
                      coalesce(bool_or(r.rolsuper), false),
                      coalesce(bool_or(r.rolbypassrls), false),
                      coalesce(bool_or(r.rolcreaterole), false),
                      exists (select from pg_catalog.pg_class c
                              join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                              where n.nspname = 'coreci' and pg_catalog.pg_has_role(session_user, c.relowner, 'member')),
                      exists (select from pg_catalog.pg_namespace n
                              where n.nspname = 'coreci' and pg_catalog.pg_has_role(session_user, n.nspowner, 'member'))
               from pg_catalog.pg_roles r
               where pg_catalog.pg_has_role(session_user, r.oid, 'member')";
    let row = client.query_one(sql, &[]).await.map_err(PreflightError::Check)?;
    let findings = [
        "is a superuser, or can become one",
        "may bypass row-level security, or can become a role that may",
        "may create roles, or can become a role that may",
        "owns tables of the schema, or can become their owner",
        "owns the schema, or can become its owner",
    ];
    for (column, why) in findings.into_iter().enumerate() {
        if row.get(column + 1) {
            return Err(PreflightError::RoleTooStrong { role: row.get(0), why });
        }
    }
    Ok(())
}

async fn role_is(client: &Client, wanted: &'static str) -> Result<(), PreflightError> {
    let sql = "select session_user::text, exists (select from pg_catalog.pg_roles r where r.rolname = $1
                                                   and pg_catalog.pg_has_role(session_user, r.oid, 'usage'))";
    let row = client.query_one(sql, &[&wanted]).await.map_err(PreflightError::Check)?;
    if row.get(1) { Ok(()) } else { Err(PreflightError::WrongRole { role: row.get(0), wanted }) }
}

/// Row-level security must be on and forced for every table with a tenant, and hide every row from a session without one.
async fn rls_self_test(client: &Client) -> Result<(), PreflightError> {
    let unprotected = "select exists (select from pg_catalog.pg_class c
                           join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                           join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
                           where n.nspname = 'coreci' and c.relkind in ('r', 'p')
                             and not (c.relrowsecurity and c.relforcerowsecurity))";
    if client.query_one(unprotected, &[]).await.map_err(PreflightError::Check)?.get(0) {
        return Err(PreflightError::RlsOff("a table has it switched off"));
    }
    let visible = "select exists (select from coreci.tenants)";
    if client.query_one(visible, &[]).await.map_err(PreflightError::Check)?.get(0) {
        return Err(PreflightError::RlsOff("tenants are visible to a session without a tenant"));
    }
    Ok(())
}
