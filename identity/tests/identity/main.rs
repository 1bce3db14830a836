//! Keys in a real Postgres, as the application's own role.

mod identities;

use std::sync::Arc;

use identity::pg::{KeyRecord, NewKey, key_create, key_list, key_revoke};
use identity::{ApiKey, AuthError, Authenticator, Role};
use mcp_core::id::{TargetId, TenantId};
use mcp_core::principal::{Action, Principal};
use mcp_core::tool::ToolName;
use tenancy::stores::tenant::{TenantStatus, tenant_set_status};
use tenancy::testing::TestDatabase;
use tenancy::{Tenancy, TenancyError};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

struct World {
    database: TestDatabase,
    tenancy: Tenancy,
    tenant: TenantId,
}

impl World {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let tenant = database.create_tenant("acme").await;
        Self { tenancy: database.tenancy(), database, tenant }
    }

    async fn try_key(&self, new: &NewKey<'_>) -> Result<(ApiKey, KeyRecord), TenancyError> {
        let key = ApiKey::generate().expect("random");
        let tx = self.tenancy.tx(self.tenant).await?;
        let record = key_create(&tx, &key, new, None).await?;
        tx.commit().await?;
        Ok((key, record))
    }

    async fn key(&self, name: &str, role: Role) -> (ApiKey, KeyRecord) {
        self.try_key(&new_key(name, role)).await.expect("created")
    }

    async fn revoke(&self, key: &KeyRecord) -> Result<(), TenancyError> {
        let tx = self.tenancy.tx(self.tenant).await?;
        key_revoke(&tx, key.key_id, None).await?;
        tx.commit().await
    }

    async fn who(&self, key: &ApiKey) -> Result<Arc<Principal>, AuthError> {
        Authenticator::new(self.tenancy.clone()).authenticate(key.reveal()).await
    }
}

fn new_key(name: &str, role: Role) -> NewKey<'_> {
    NewKey { name, role, expires_at: None, tools: None, targets: None }
}

fn is_unknown(result: &Result<Arc<Principal>, AuthError>) -> bool {
    matches!(result, Err(AuthError::Unauthenticated))
}

// proves: REQ-003
#[tokio::test]
async fn a_key_names_its_tenant_its_owner_and_its_role() {
    let world = World::new().await;
    let (key, record) = world.key("ci", Role::Operator).await;
    let principal = world.who(&key).await.expect("a principal");

    assert_eq!(principal.tenant, world.tenant);
    assert_eq!(principal.key, Some(record.key_id));
    assert_eq!(principal.role, "operator");
    assert!(principal.grants.cover_action(Action::ToolsInvoke));
    assert!(is_unknown(&world.who(&ApiKey::generate().expect("random")).await));
}

// proves: C-A02, C-A17
#[tokio::test]
async fn revoked_expired_and_suspended_look_like_unknown() {
    let world = World::new().await;
    let (_, _) = world.key("root", Role::Admin).await;
    let (revoked, record) = world.key("revoked", Role::Viewer).await;
    world.revoke(&record).await.expect("revoked");
    world.revoke(&record).await.expect("revoking twice is once");
    assert!(is_unknown(&world.who(&revoked).await));

    let past = OffsetDateTime::now_utc() - Duration::seconds(1);
    let expired = NewKey { expires_at: Some(past), ..new_key("expired", Role::Viewer) };
    let (expired, _) = world.try_key(&expired).await.expect("created");
    assert!(is_unknown(&world.who(&expired).await));

    let (live, _) = world.key("live", Role::Viewer).await;
    assert!(world.who(&live).await.is_ok());
    let tx = world.tenancy.tx(world.tenant).await.expect("a transaction");
    tenant_set_status(&tx, TenantStatus::Suspended, "operator").await.expect("suspended");
    tx.commit().await.expect("committed");
    assert!(is_unknown(&world.who(&live).await));
}

#[tokio::test]
async fn a_remembered_key_is_forgotten_when_it_is_revoked() {
    let world = World::new().await;
    world.key("root", Role::Admin).await;
    let (key, record) = world.key("ci", Role::Viewer).await;
    let authenticator = Authenticator::new(world.tenancy.clone());
    authenticator.authenticate(key.reveal()).await.expect("a principal");
    world.revoke(&record).await.expect("revoked");
    authenticator.forget(record.key_id);
    assert!(is_unknown(&authenticator.authenticate(key.reveal()).await));
}

#[tokio::test]
async fn a_key_can_be_narrowed_to_tools_and_targets() {
    let world = World::new().await;
    let mine = TargetId::from_uuid(Uuid::from_u128(1));
    let narrowed = NewKey {
        tools: Some([ToolName::GithubListRepos].into()),
        targets: Some([mine].into()),
        ..new_key("narrow", Role::Operator)
    };
    let (key, _) = world.try_key(&narrowed).await.expect("created");
    let grants = world.who(&key).await.expect("a principal").grants.clone();

    assert!(grants.cover_tool(ToolName::GithubListRepos) && !grants.cover_tool(ToolName::GiteaListRepos));
    assert!(grants.cover_target(mine) && !grants.cover_target(TargetId::from_uuid(Uuid::from_u128(2))));
}

// proves: C-D03
#[tokio::test]
async fn the_last_admin_key_stays() {
    let world = World::new().await;
    let (_, only) = world.key("root", Role::Admin).await;
    let refused = world.revoke(&only).await.expect_err("refused");
    assert!(matches!(&refused, TenancyError::Conflict { constraint: Some(name) } if name == "last_admin"));

    let (_, second) = world.key("root-2", Role::Admin).await;
    let (one, two) = tokio::join!(world.revoke(&only), world.revoke(&second));
    assert!(one.is_ok() != two.is_ok(), "of two revocations at once, one wins");
}

#[tokio::test]
async fn a_name_is_taken_while_its_key_lives() {
    let world = World::new().await;
    world.key("root", Role::Admin).await;
    let (_, first) = world.key("ci", Role::Viewer).await;
    let taken = world.try_key(&new_key("ci", Role::Viewer)).await;
    assert!(matches!(taken, Err(TenancyError::Conflict { .. })));
    world.revoke(&first).await.expect("revoked");
    world.key("ci", Role::Operator).await;
}

#[tokio::test]
async fn pages_of_keys_meet_without_gap_or_overlap() {
    let world = World::new().await;
    for n in 0..5 {
        world.key(&format!("key-{n}"), Role::Viewer).await;
    }
    let tx = world.tenancy.tx(world.tenant).await.expect("a transaction");
    let first = key_list(&tx, None, 3).await.expect("a page");
    let last = first.last().expect("three");
    let second = key_list(&tx, Some((last.created_at, last.key_id)), 3).await.expect("a page");
    let names: Vec<_> = first.iter().chain(&second).map(|key| key.name.clone()).collect();
    assert_eq!(names, ["key-0", "key-1", "key-2", "key-3", "key-4"]);
}

// proves: C-B01
#[tokio::test]
async fn another_tenants_key_is_not_there() {
    let world = World::new().await;
    let (_, theirs) = world.key("ci", Role::Viewer).await;
    let other = world.database.create_tenant("globex").await;
    let tx = world.tenancy.tx(other).await.expect("a transaction");
    assert_eq!(key_list(&tx, None, 10).await.expect("a page"), []);
    assert!(matches!(key_revoke(&tx, theirs.key_id, None).await, Err(TenancyError::NotFound)));
}
