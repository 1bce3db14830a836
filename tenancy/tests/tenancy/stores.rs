//! The stores, through their public functions.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use mcp_core::id::{AgentId, PrincipalId, TargetId, TenantId};
use mcp_core::relay::HostFacts;
use mcp_core::tool::AdapterKind;
use serde_json::{Value, json};
use tenancy::idempotency::{IdempotencyKey, StoredAnswer, idempotency_get, idempotency_put};
use tenancy::stores::agent::{
    agent_get, agent_registered, agent_seen, enrolment_create, enrolment_use, target_revoke,
};
use tenancy::stores::target::{
    TargetCursor, TargetRef, target_create, target_get, target_list, target_remove,
};
use tenancy::stores::tenant::{TenantStatus, tenant_get, tenant_list, tenant_set_status};
use tenancy::stores::tool_policy::{tool_policy_get, tool_policy_set};
use tenancy::testing::TestDatabase;
use tenancy::{PoolSize, TenancyError};
use uuid::Uuid;

const HOUR: Duration = Duration::from_secs(3600);

/// The outbox of one tenant, in order, as the audit writer reads it.
async fn events(database: &TestDatabase, tenant: TenantId) -> Vec<(String, Value)> {
    let sql = "select event_type, body from audit_outbox where tenant_id = $1 order by position";
    let rows = database.connect_as("coreci_audit").await.query(sql, &[&tenant.as_uuid()]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn event_types(database: &TestDatabase, tenant: TenantId) -> Vec<String> {
    events(database, tenant).await.into_iter().map(|(event_type, _)| event_type).collect()
}

fn new_target() -> TargetId {
    TargetId::from_uuid(Uuid::new_v4())
}

#[tokio::test]
async fn a_tenants_life_is_told_in_its_outbox() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("acme").await;
    let tenancy = database.tenancy();
    for status in
        [TenantStatus::Suspended, TenantStatus::Suspended, TenantStatus::Active, TenantStatus::Deleted]
    {
        let tx = tenancy.tx(tenant).await.unwrap();
        assert_eq!(tenant_set_status(&tx, status, "cli").await.unwrap().status, status);
        tx.commit().await.unwrap();
    }

    let tx = tenancy.tx(tenant).await.unwrap();
    let revived = tenant_set_status(&tx, TenantStatus::Active, "cli").await;
    assert!(matches!(revived, Err(TenancyError::NotFound)), "deletion is final");
    drop(tx);
    let told = event_types(&database, tenant).await;
    assert_eq!(told, ["tenant.created", "tenant.suspended", "tenant.resumed", "tenant.deleted"]);
    assert_eq!(events(&database, tenant).await[1].1, json!({ "actor": "cli", "slug": "acme" }));
}

#[tokio::test]
async fn a_rolled_back_change_leaves_no_event() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("acme").await;
    let tx = database.tenancy().tx(tenant).await.unwrap();
    tenant_set_status(&tx, TenantStatus::Suspended, "cli").await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(event_types(&database, tenant).await, ["tenant.created"]);
}

#[tokio::test]
async fn of_fifty_tenants_that_want_one_slug_one_gets_it() {
    let database = TestDatabase::new().await;
    let tenancy = database.tenancy_of(PoolSize::new(10));

    let wanted = (0..50).map(|_| tenancy::stores::tenant::tenant_create(&tenancy, "acme", "Acme", "cli"));
    let answers = join_all(wanted).await;

    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let refused = |answer: &&Result<_, _>| matches!(answer, Err(TenancyError::Conflict { .. }));
    assert_eq!(answers.iter().filter(refused).count(), 49);
    let listed = tenant_list(&tenancy).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(tenancy.lookup().tenant_by_slug("acme").await.unwrap(), Some(listed[0].tenant_id));
    assert_eq!(tenancy.lookup().tenant_by_slug("other").await.unwrap(), None);
}

#[tokio::test]
async fn pages_of_targets_follow_each_other_without_gap_or_repeat() {
    let database = TestDatabase::new().await;
    let (ours, theirs) = (database.create_tenant("a").await, database.create_tenant("b").await);
    let tenancy = database.tenancy();
    for tenant in [ours, theirs] {
        let tx = tenancy.tx(tenant).await.unwrap();
        for number in 0..7 {
            target_create(&tx, new_target(), AdapterKind::Gitea, &format!("host-{number}")).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    let tx = tenancy.tx(ours).await.unwrap();
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let page = target_list(&tx, cursor.as_ref(), 3).await.unwrap();
        let Some(last) = page.last() else { break };
        cursor = Some(TargetCursor { name: last.name.clone(), target_id: last.target_id });
        names.extend(page.into_iter().map(|target| target.name));
    }
    assert_eq!(names, (0..7).map(|number| format!("host-{number}")).collect::<Vec<_>>());
}

// proves: C-C09
#[tokio::test]
async fn another_tenants_target_looks_like_no_target() {
    let database = TestDatabase::new().await;
    let (ours, theirs) = (database.create_tenant("a").await, database.create_tenant("b").await);
    let tenancy = database.tenancy();
    let foreign = new_target();
    let tx = tenancy.tx(theirs).await.unwrap();
    target_create(&tx, foreign, AdapterKind::Ssh, "db-1").await.unwrap();
    tx.commit().await.unwrap();

    let tx = tenancy.tx(ours).await.unwrap();
    for target in [foreign, new_target()] {
        let got = target_get(&tx, TargetRef::Id(target)).await;
        assert!(matches!(got, Err(TenancyError::NotFound)), "{got:?}");
        assert!(matches!(target_remove(&tx, target).await, Err(TenancyError::NotFound)));
        assert!(matches!(target_revoke(&tx, target, "ada").await, Err(TenancyError::NotFound)));
    }
    assert!(matches!(target_get(&tx, "db-1".into()).await, Err(TenancyError::NotFound)));
}

#[tokio::test]
async fn a_removed_target_gives_its_name_back() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy();
    let (first, second) = (new_target(), new_target());
    let tx = tenancy.tx(tenant).await.unwrap();
    target_create(&tx, first, AdapterKind::Github, "forge").await.unwrap();
    tx.commit().await.unwrap();
    let tx = tenancy.tx(tenant).await.unwrap();
    let again = target_create(&tx, second, AdapterKind::Github, "forge").await;
    assert!(
        matches!(again, Err(TenancyError::Conflict { constraint: Some(name) }) if name == "targets_by_name")
    );
    drop(tx);

    let tx = tenancy.tx(tenant).await.unwrap();
    target_remove(&tx, first).await.unwrap();
    target_create(&tx, second, AdapterKind::Github, "forge").await.unwrap();
    assert_eq!(target_get(&tx, "forge".into()).await.unwrap().target_id, second);
    let id = second.to_string();
    assert_eq!(target_get(&tx, id.as_str().into()).await.unwrap().name, "forge");
}

// proves: C-M01
#[tokio::test]
async fn of_fifty_agents_that_use_one_enrolment_one_succeeds() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy_of(PoolSize::new(25));
    let token_hash = [7; 32];
    let tx = tenancy.tx(tenant).await.unwrap();
    enrolment_create(&tx, "web-1", &token_hash, HOUR, None).await.unwrap();
    tx.commit().await.unwrap();

    let (found, enrolment) = tenancy.lookup().enrolment(&token_hash).await.unwrap().unwrap();
    assert_eq!(found, tenant);
    let uses = (0..50_u8).map(|number| {
        let tenancy = tenancy.clone();
        async move {
            let tx = tenancy.tx(tenant).await?;
            let agent = enrolment_use(&tx, enrolment, &[number; 32], &HostFacts::default(), None).await?;
            tx.commit().await?;
            Ok::<_, TenancyError>(agent)
        }
    });
    let answers = join_all(uses).await;

    let winners: Vec<_> = answers.iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    let lost = |answer: &&Result<_, _>| matches!(answer, Err(TenancyError::NotFound));
    assert_eq!(answers.iter().filter(lost).count(), 49, "{answers:?}");
    assert_eq!(event_types(&database, tenant).await, ["tenant.created", "relay.enrolled"]);
    assert_eq!(tenancy.lookup().agent(winners[0].agent_id).await.unwrap(), Some(tenant));
}

// proves: C-M01
#[tokio::test]
async fn an_expired_or_foreign_enrolment_is_no_enrolment() {
    let database = TestDatabase::new().await;
    let (ours, theirs) = (database.create_tenant("a").await, database.create_tenant("b").await);
    let tenancy = database.tenancy();
    let tx = tenancy.tx(ours).await.unwrap();
    let expired = enrolment_create(&tx, "web-1", &[1; 32], Duration::ZERO, None).await.unwrap();
    let valid = enrolment_create(&tx, "web-2", &[2; 32], HOUR, None).await.unwrap();
    tx.commit().await.unwrap();

    for (tenant, enrolment) in
        [(ours, expired.enrolment_id), (theirs, valid.enrolment_id), (ours, Uuid::new_v4())]
    {
        let tx = tenancy.tx(tenant).await.unwrap();
        let used = enrolment_use(&tx, enrolment, &[9; 32], &HostFacts::default(), None).await;
        assert!(matches!(used, Err(TenancyError::NotFound)), "{used:?}");
    }
}

#[tokio::test]
async fn the_newest_registration_wins_and_a_revoked_agent_stays_dead() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy();
    let tx = tenancy.tx(tenant).await.unwrap();
    let enrolment = enrolment_create(&tx, "web-1", &[1; 32], HOUR, None).await.unwrap();
    let facts =
        HostFacts { hostname: "web-1.example".into(), os: "Debian 12".into(), ..HostFacts::default() };
    let agent =
        enrolment_use(&tx, enrolment.enrolment_id, &[9; 32], &facts, Some("192.0.2.1")).await.unwrap();
    let (target, first) = agent_registered(&tx, agent.agent_id, &facts).await.unwrap();
    let (_, second) = agent_registered(&tx, agent.agent_id, &facts).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((target, first, second), (agent.target_id, 1, 2));

    let tx = tenancy.tx(tenant).await.unwrap();
    assert!(!agent_seen(&tx, agent.agent_id, first).await.unwrap());
    assert!(agent_seen(&tx, agent.agent_id, second).await.unwrap());
    let host = target_get(&tx, TargetRef::Id(target)).await.unwrap();
    assert_eq!((host.hostname.as_deref(), host.name.as_str()), (Some("web-1.example"), "web-1"));
    assert!(host.last_seen_at.is_some());

    assert_eq!(target_revoke(&tx, target, "ada").await.unwrap(), [agent.agent_id]);
    assert!(!agent_seen(&tx, agent.agent_id, second).await.unwrap());
    let registered = agent_registered(&tx, agent.agent_id, &facts).await;
    assert!(matches!(registered, Err(TenancyError::NotFound)), "{registered:?}");
    assert!(agent_get(&tx, agent.agent_id).await.unwrap().revoked_at.is_some());
    let unknown = AgentId::from_uuid(Uuid::new_v4());
    assert!(matches!(agent_get(&tx, unknown).await, Err(TenancyError::NotFound)));
    tx.commit().await.unwrap();
    let (event_type, body) = events(&database, tenant).await.pop().unwrap();
    assert_eq!(event_type, "relay.revoked");
    assert_eq!(body, json!({ "actor": "ada", "agentId": agent.agent_id, "targetId": target }));
}

#[tokio::test]
async fn a_tenant_switches_tools_off_and_on() {
    let database = TestDatabase::new().await;
    let (ours, theirs) = (database.create_tenant("a").await, database.create_tenant("b").await);
    let tenancy = database.tenancy();
    let off: BTreeSet<String> = ["ssh.journal".to_owned(), "github.repos".to_owned()].into();
    let tx = tenancy.tx(ours).await.unwrap();
    assert_eq!(tool_policy_get(&tx).await.unwrap(), BTreeSet::new());
    tool_policy_set(&tx, &off, "ada").await.unwrap();
    tool_policy_set(&tx, &off, "ada").await.unwrap();
    assert_eq!(tool_policy_get(&tx).await.unwrap(), off);
    tx.commit().await.unwrap();

    let tx = tenancy.tx(theirs).await.unwrap();
    assert_eq!(tool_policy_get(&tx).await.unwrap(), BTreeSet::new());
    let told = event_types(&database, ours).await;
    assert_eq!(told, ["tenant.created", "tool_policy.changed", "tool_policy.changed"]);
}

#[tokio::test]
async fn an_answer_is_kept_for_its_key_for_a_day() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy();
    let principal = PrincipalId::from_uuid(Uuid::new_v4());
    let key = IdempotencyKey { principal, route: "target_create", key: "k-1" };
    let answer = StoredAnswer { request_hash: [3; 32], status: 201, response: json!({ "id": 1 }) };
    let tx = tenancy.tx(tenant).await.unwrap();
    assert_eq!(idempotency_get(&tx, key).await.unwrap(), None);
    idempotency_put(&tx, key, &answer).await.unwrap();
    tx.commit().await.unwrap();

    let tx = tenancy.tx(tenant).await.unwrap();
    assert_eq!(idempotency_get(&tx, key).await.unwrap(), Some(answer.clone()));
    let other = IdempotencyKey { principal: PrincipalId::from_uuid(Uuid::new_v4()), ..key };
    assert_eq!(idempotency_get(&tx, other).await.unwrap(), None);
    assert!(matches!(idempotency_put(&tx, key, &answer).await, Err(TenancyError::Conflict { .. })));
    drop(tx);

    let age = "update coreci.idempotency_keys set created_at = now() - interval '25 hours'";
    database.admin_client().await.batch_execute(age).await.unwrap();
    let tx = tenancy.tx(tenant).await.unwrap();
    assert_eq!(idempotency_get(&tx, key).await.unwrap(), None);
    idempotency_put(&tx, key, &answer).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_tenant_that_does_not_exist_is_not_found() {
    let database = TestDatabase::new().await;
    let tx = database.tenancy().tx(TenantId::from_uuid(Uuid::new_v4())).await.unwrap();

    assert!(matches!(tenant_get(&tx).await, Err(TenancyError::NotFound)));
    let orphan = target_create(&tx, new_target(), AdapterKind::Ssh, "db-1").await;
    assert!(matches!(orphan, Err(TenancyError::NotFound)), "{orphan:?}");
}
