//! Brings a database to the schema this binary was built with. The files in `sql/` are compiled in.

use std::time::Duration;

use postgres_protocol::password::scram_sha_256;
use ring::digest::{SHA256, digest};
use tokio_postgres::{Client, Config};

use crate::session::{self, OpenError};

const ROLES: &str = include_str!("../../sql/roles.sql");

/// In order. A file that has shipped is never edited and never removed.
const MIGRATIONS: &[Migration] = &[
    migration(1, "tenants_and_keys", include_str!("../../sql/migrations/0001_tenants_and_keys.sql")),
    migration(2, "targets_and_agents", include_str!("../../sql/migrations/0002_targets_and_agents.sql")),
    migration(3, "audit", include_str!("../../sql/migrations/0003_audit.sql")),
    migration(4, "adapters", include_str!("../../sql/migrations/0004_adapters.sql")),
    migration(5, "user_identities", include_str!("../../sql/migrations/0005_user_identities.sql")),
];

/// "coreci" in ASCII: whoever changes the schema or the roles holds this advisory lock for its session.
const LOCK: i64 = 0x63_6f_72_65_63_69;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What [`migrate`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Versions that were applied now, in order; empty when the schema was up to date.
    pub versions: Vec<i32>,
    /// The schema's version afterwards.
    pub schema: i32,
}

/// Passwords of the roles that log in. Shown by nothing.
#[derive(Clone)]
pub struct RolePasswords {
    /// For `coreci_migrator`.
    pub migrator: String,
    /// For `coreci_app`.
    pub app: String,
    /// For `coreci_audit`.
    pub audit: String,
}

impl std::fmt::Debug for RolePasswords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RolePasswords(..)")
    }
}

/// The schema could not be brought up to date, or is not the one this binary was built with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database cannot be reached as this role.
    #[error("cannot connect to the database to check or change its schema")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A statement failed. The migration it belongs to was rolled back as a whole.
    #[error("{what} failed; nothing of it was kept")]
    Failed {
        /// The file or step.
        what: String,
        /// What the database said.
        #[source]
        source: tokio_postgres::Error,
    },
    /// A shipped file differs from the one that was applied.
    #[error("migration {version} ({name}) was applied with other contents than this binary carries")]
    Edited {
        /// Its number.
        version: i32,
        /// Its name.
        name: String,
    },
    /// The database was migrated by a newer binary.
    #[error(
        "the database has schema {found}, this binary knows {known}: it was migrated by a newer version; \
         run that version, or restore a backup made before the upgrade"
    )]
    Newer {
        /// In the database.
        found: i32,
        /// In the binary.
        known: i32,
    },
    /// The database was not migrated yet.
    #[error("the database has schema {found}, this binary needs {known}: run `control-plane migrate` first")]
    Older {
        /// In the database; 0 when it is empty.
        found: i32,
        /// In the binary.
        known: i32,
    },
}

/// The schema version this binary was built with.
#[must_use]
pub fn known_version() -> i32 {
    MIGRATIONS.last().map_or(0, |last| last.version)
}

/// Creates the roles and sets their passwords and limits. May run again, and while another process does the same.
///
/// # Errors
/// [`MigrateError::Connect`], or [`MigrateError::Failed`] when `admin` may not create roles.
///
/// # Cancellation
/// Every step can be repeated: run it again.
pub async fn bootstrap_roles(admin: &Config, passwords: &RolePasswords) -> Result<(), MigrateError> {
    let client = open(admin).await?;
    take_lock(&client).await?;
    run(&client, "roles.sql", ROLES).await?;
    for (role, password) in [
        ("coreci_migrator", &passwords.migrator),
        ("coreci_app", &passwords.app),
        ("coreci_audit", &passwords.audit),
    ] {
        // The verifier is made on this side: the password itself never stands in a statement, which a server may log.
        let verifier = scram_sha_256(password.as_bytes());
        let failed =
            |source| MigrateError::Failed { what: format!("setting the password of {role}"), source };
        let statement = client
            .query_one("select format('alter role %I password %L', $1::text, $2::text)", &[&role, &verifier])
            .await
            .map_err(failed)?;
        client.batch_execute(statement.get(0)).await.map_err(failed)?;
    }
    Ok(())
}

/// Applies what is missing, as `coreci_migrator`, each file in its own transaction. A second process that does the same
/// waits for the first one and then finds nothing to do.
///
/// # Errors
/// See [`MigrateError`]; whatever was applied before the failing file stays.
///
/// # Cancellation
/// A file is applied as a whole or not at all, also when the process is killed.
pub async fn migrate(migrator: &Config) -> Result<Applied, MigrateError> {
    migrate_with(migrator, MIGRATIONS).await
}

/// Refuses a schema that is older or newer than this binary, for the processes that only use it. `app` is any role that
/// may read the schema's version.
///
/// # Errors
/// [`MigrateError::Older`], [`MigrateError::Newer`], [`MigrateError::Edited`] or a failed connection.
pub async fn schema_check(app: &Config) -> Result<(), MigrateError> {
    schema_check_on(&open(app).await?).await
}

pub(crate) async fn schema_check_on(client: &Client) -> Result<(), MigrateError> {
    let found = match applied(client).await? {
        None => 0,
        Some(rows) => compare(&rows, MIGRATIONS)?,
    };
    match known_version() {
        known if found < known => Err(MigrateError::Older { found, known }),
        _ => Ok(()),
    }
}

/// A digest over roles and migrations, which names a test template. Changes whenever a file in `sql/` does.
#[cfg(feature = "testing")]
pub(crate) fn digest_of_sql() -> [u8; 32] {
    let mut context = ring::digest::Context::new(&SHA256);
    context.update(ROLES.as_bytes());
    for migration in MIGRATIONS {
        context.update(&migration.checksum());
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

#[derive(Debug, Clone, Copy)]
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

const fn migration(version: i32, name: &'static str, sql: &'static str) -> Migration {
    Migration { version, name, sql }
}

impl Migration {
    fn checksum(&self) -> Vec<u8> {
        digest(&SHA256, self.sql.as_bytes()).as_ref().to_vec()
    }
}

struct AppliedRow {
    version: i32,
    name: String,
    checksum: Vec<u8>,
}

async fn migrate_with(migrator: &Config, migrations: &[Migration]) -> Result<Applied, MigrateError> {
    let mut client = open(migrator).await?;
    take_lock(&client).await?;
    run(
        &client,
        "the table of applied migrations",
        "set search_path = coreci;
         create table if not exists coreci.schema_migrations (
             version    int primary key,
             name       text not null,
             checksum   bytea not null,
             applied_at timestamptz not null default now()
         );
         grant select on coreci.schema_migrations to coreci_app, coreci_audit;",
    )
    .await?;
    let mut schema = compare(&applied(&client).await?.unwrap_or_default(), migrations)?;
    let mut versions = Vec::new();
    for migration in migrations.iter().filter(|candidate| candidate.version > schema) {
        apply(&mut client, migration).await?;
        tracing::info!(migration.version, migration.name, "a migration was applied");
        versions.push(migration.version);
    }
    schema = versions.last().copied().unwrap_or(schema);
    Ok(Applied { versions, schema })
}

async fn apply(client: &mut Client, migration: &Migration) -> Result<(), MigrateError> {
    let what = format!("migration {} ({})", migration.version, migration.name);
    let failed = |source| MigrateError::Failed { what: what.clone(), source };
    let tx = client.transaction().await.map_err(failed)?;
    tx.batch_execute(migration.sql).await.map_err(failed)?;
    let record = "insert into coreci.schema_migrations (version, name, checksum) values ($1, $2, $3)";
    tx.execute(record, &[&migration.version, &migration.name, &migration.checksum()])
        .await
        .map_err(failed)?;
    tx.commit().await.map_err(failed)
}

/// What the database says was applied; `None` when it was never migrated (or this role may not see it).
async fn applied(client: &Client) -> Result<Option<Vec<AppliedRow>>, MigrateError> {
    let failed = |source| MigrateError::Failed { what: "reading the schema version".to_owned(), source };
    let known = "select exists (select from pg_catalog.pg_class c \
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                 where n.nspname = 'coreci' and c.relname = 'schema_migrations' \
                   and pg_catalog.has_schema_privilege(n.oid, 'usage'))";
    if !client.query_one(known, &[]).await.map_err(failed)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = "select version, name, checksum from coreci.schema_migrations order by version";
    let rows = client.query(sql, &[]).await.map_err(failed)?;
    Ok(Some(
        rows.iter()
            .map(|row| AppliedRow { version: row.get(0), name: row.get(1), checksum: row.get(2) })
            .collect(),
    ))
}

/// The schema's version, when everything that was applied is what `migrations` holds.
fn compare(rows: &[AppliedRow], migrations: &[Migration]) -> Result<i32, MigrateError> {
    let found = rows.last().map_or(0, |last| last.version);
    let known = migrations.last().map_or(0, |last| last.version);
    if found > known {
        return Err(MigrateError::Newer { found, known });
    }
    for (row, migration) in rows.iter().zip(migrations) {
        if row.version != migration.version || row.checksum != migration.checksum() {
            return Err(MigrateError::Edited { version: row.version, name: row.name.clone() });
        }
    }
    Ok(found)
}

/// Waits up to a minute for another process that is migrating. Released when the session ends, however it ends.
async fn take_lock(client: &Client) -> Result<(), MigrateError> {
    let failed = |source| MigrateError::Failed { what: "waiting for another migration".to_owned(), source };
    client.batch_execute("set lock_timeout = '60s'").await.map_err(failed)?;
    client.execute("select pg_catalog.pg_advisory_lock($1)", &[&LOCK]).await.map_err(failed)?;
    // Waiting long for a table would queue the application behind this session (C-L09).
    client.batch_execute("set lock_timeout = '2s'").await.map_err(failed)
}

async fn run(client: &Client, what: &str, sql: &str) -> Result<(), MigrateError> {
    client.batch_execute(sql).await.map_err(|source| MigrateError::Failed { what: what.to_owned(), source })
}

async fn open(config: &Config) -> Result<Client, MigrateError> {
    session::open(config, CONNECT_TIMEOUT)
        .await
        .map_err(|error: OpenError| MigrateError::Connect(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;

    const FIRST: Migration = migration(1, "first", "create table coreci.first (id int)");

    #[test]
    fn every_file_is_compiled_in_and_in_order() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/migrations");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let known = MIGRATIONS.iter().map(|one| format!("{:04}_{}.sql", one.version, one.name));
        assert_eq!(known.collect::<Vec<_>>(), files);
        assert!(MIGRATIONS.iter().zip(1..).all(|(one, version)| one.version == version));
    }

    async fn empty() -> (TestDatabase, Config) {
        let database = TestDatabase::empty().await;
        let migrator = database.connections().migrator.unwrap();
        (database, migrator)
    }

    #[tokio::test]
    async fn an_edited_file_is_refused() {
        let (_database, migrator) = empty().await;
        migrate_with(&migrator, &[FIRST]).await.unwrap();

        let edited = Migration { sql: "create table coreci.first (id bigint)", ..FIRST };
        let error = migrate_with(&migrator, &[edited]).await.unwrap_err();

        assert!(matches!(error, MigrateError::Edited { version: 1, .. }), "{error}");
    }

    // proves: C-L12
    #[tokio::test]
    async fn a_newer_schema_is_refused() {
        let (_database, migrator) = empty().await;
        let second = migration(2, "second", "create table coreci.second (id int)");
        migrate_with(&migrator, &[FIRST, second]).await.unwrap();

        let error = migrate_with(&migrator, &[FIRST]).await.unwrap_err();

        assert!(matches!(error, MigrateError::Newer { found: 2, known: 1 }), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_fails_leaves_nothing_and_keeps_what_came_before() {
        let (_database, migrator) = empty().await;
        let broken = migration(2, "broken", "create table coreci.second (id int); select 1 / 0");

        let error = migrate_with(&migrator, &[FIRST, broken]).await.unwrap_err();
        assert!(matches!(error, MigrateError::Failed { .. }), "{error}");

        let fixed = migration(2, "fixed", "create table coreci.second (id int)");
        let applied = migrate_with(&migrator, &[FIRST, fixed]).await.unwrap();
        assert_eq!(applied, Applied { versions: vec![2], schema: 2 });
    }

    #[tokio::test]
    async fn a_session_that_dies_in_the_middle_leaves_the_state_before() {
        let (database, migrator) = empty().await;
        let slow = migration(1, "slow", "create table coreci.first (id int); select pg_sleep(60)");
        let killed = tokio::spawn({
            let migrator = migrator.clone();
            async move { migrate_with(&migrator, &[slow]).await }
        });
        let admin = database.admin_client().await;
        let end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity
                   where datname = current_database() and wait_event = 'PgSleep'";
        while admin.query(end, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(killed.await.unwrap().is_err());

        let applied = migrate_with(&migrator, &[FIRST]).await.unwrap();
        assert_eq!(applied, Applied { versions: vec![1], schema: 1 });
    }

    // proves: C-L09
    #[tokio::test]
    async fn replicas_that_migrate_at_once_apply_each_file_once() {
        let (_database, migrator) = empty().await;

        let all = (0..8).map(|_| migrate(&migrator));
        let applied = futures_util::future::try_join_all(all).await.unwrap();

        let by_whom = applied.iter().filter(|one| !one.versions.is_empty()).count();
        assert_eq!(by_whom, 1);
        assert!(applied.iter().all(|one| one.schema == known_version()));
    }
}
