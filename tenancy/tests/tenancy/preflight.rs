//! What a process refuses to start with.

use tenancy::migrate::{MigrateError, migrate, schema_check};
use tenancy::preflight::{self, PreflightError};
use tenancy::testing::TestDatabase;

#[tokio::test]
async fn a_migrated_database_with_its_own_roles_is_fit() {
    let database = TestDatabase::new().await;

    preflight::check(&database.connections()).await.unwrap();
}

// proves: C-C13
#[tokio::test]
async fn a_strong_role_is_refused_by_name() {
    let database = TestDatabase::new().await;
    let admin = database.admin_client().await;
    // Roles belong to the whole server, which other tests share: these have names of their own.
    let unique = database.name();
    let member = format!("member_{unique}");
    let bypass = format!("bypass_{unique}");
    let roles = format!(
        "create role {member} login; grant coreci_migrator to {member}; create role {bypass} login bypassrls;
         grant connect on database {unique} to {member}, {bypass}; grant usage on schema coreci to {member}, {bypass}"
    );
    admin.batch_execute(&roles).await.unwrap();

    for (role, words) in [
        ("coreci_admin", "is a superuser"),
        ("coreci_migrator", "owns tables"),
        (member.as_str(), "can become their owner"),
        (bypass.as_str(), "may bypass row-level security"),
    ] {
        let mut app = database.connections();
        app.app = database.config(role);
        let mut audit = database.connections();
        audit.audit = database.config(role);
        for connections in [app, audit] {
            let error = preflight::check(&connections).await.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, PreflightError::RoleTooStrong { .. }), "{role}: {text}");
            assert!(text.contains(&format!("\"{role}\"")) && text.contains(words), "{role}: {text}");
        }
    }
    let gone = format!("drop owned by {member}, {bypass}; drop role {member}, {bypass}");
    admin.batch_execute(&gone).await.unwrap();
}

#[tokio::test]
async fn swapped_urls_are_noticed() {
    let database = TestDatabase::new().await;
    let mut connections = database.connections();
    std::mem::swap(&mut connections.app, &mut connections.audit);

    let error = preflight::check(&connections).await.unwrap_err();

    assert!(matches!(error, PreflightError::WrongRole { wanted: "coreci_app", .. }), "{error}");
}

// proves: C-L12
#[tokio::test]
async fn a_schema_of_another_version_is_refused() {
    let database = TestDatabase::new().await;
    let app = database.connections().app;
    let admin = database.admin_client().await;
    schema_check(&app).await.unwrap();

    let newer = "insert into coreci.schema_migrations values (9999, 'future', ''::bytea)";
    admin.batch_execute(newer).await.unwrap();
    let error = preflight::check(&database.connections()).await.unwrap_err();
    assert!(matches!(error, PreflightError::Schema(MigrateError::Newer { found: 9999, .. })), "{error:?}");

    let older = "delete from coreci.schema_migrations where version > 1";
    admin.batch_execute(older).await.unwrap();
    let error = preflight::check(&database.connections()).await.unwrap_err();
    assert!(matches!(error, PreflightError::Schema(MigrateError::Older { found: 1, .. })), "{error:?}");
}

#[tokio::test]
async fn an_empty_database_is_older_until_it_is_migrated() {
    let database = TestDatabase::empty().await;
    let connections = database.connections();
    let error = preflight::check(&connections).await.unwrap_err();
    assert!(matches!(error, PreflightError::Schema(MigrateError::Older { found: 0, .. })), "{error:?}");

    let first = migrate(connections.migrator.as_ref().unwrap()).await.unwrap();
    let second = migrate(connections.migrator.as_ref().unwrap()).await.unwrap();

    assert_eq!(first.versions.len(), usize::try_from(first.schema).unwrap());
    assert_eq!((second.versions, second.schema), (vec![], first.schema));
    preflight::check(&connections).await.unwrap();
}

// proves: C-C12
#[tokio::test]
async fn a_database_without_row_level_security_is_refused() {
    let database = TestDatabase::new().await;
    database.create_tenant("seen").await;
    let admin = database.admin_client().await;
    for sabotage in [
        "alter table coreci.agents no force row level security",
        "alter policy tenants_of_tenant on coreci.tenants using (true)",
    ] {
        admin.batch_execute(sabotage).await.unwrap();
        let error = preflight::check(&database.connections()).await.unwrap_err();
        assert!(matches!(error, PreflightError::RlsOff(_)), "{sabotage}: {error:?}");
        admin.batch_execute("alter table coreci.agents force row level security").await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_server_is_told_from_a_wrong_one() {
    let database = TestDatabase::new().await;
    let mut connections = database.connections();
    connections.app.clone_from(tokio_postgres::Config::new().host_path("/nonexistent").user("coreci_app"));

    let error = preflight::check(&connections).await.unwrap_err();

    assert!(matches!(error, PreflightError::Unreachable(_)), "{error:?}");
}
