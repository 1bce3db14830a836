//! From a state change's own transaction into the chain.

use audit::outbox::drain_once;
use mcp_core::audit::AuditSink as _;
use mcp_core::id::{EventId, TenantId};
use serde_json::json;
use tenancy::outbox::{new_event_id, outbox_put};
use tokio_postgres::error::SqlState;
use ulid::Ulid;

use crate::world::{World, body_of, eventually, fact, tenant};

async fn put(world: &World, tenant: TenantId, count: u32) {
    let tx = world.database.tenancy().tx(tenant).await.unwrap();
    for number in 0..count {
        outbox_put(&tx, new_event_id(), "tool_policy.changed", &json!({"number": number})).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn left(world: &World) -> i64 {
    world.auditor().await.query_one("select count(*) from audit_outbox", &[]).await.unwrap().get(0)
}

async fn numbers(world: &World, tenant: TenantId) -> Vec<u64> {
    world.rows(tenant).await.iter().map(|row| body_of(row)["number"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_command_drains_in_order() {
    let world = World::new().await;
    let (acme, globex) = (tenant(), tenant());
    put(&world, acme, 600).await;
    put(&world, globex, 3).await;

    assert_eq!(drain_once(&world.database.connections().audit).await.unwrap(), 603);
    assert_eq!(drain_once(&world.database.connections().audit).await.unwrap(), 0);
    assert_eq!(numbers(&world, acme).await, (0..600).collect::<Vec<_>>());
    assert_eq!(numbers(&world, globex).await, [0, 1, 2]);
    assert!(world.verdict(acme).await.is_intact() && world.verdict(globex).await.is_intact());
}

#[tokio::test]
async fn what_is_rolled_back_never_happened() {
    let world = World::new().await;
    let tenant = tenant();
    let tx = world.database.tenancy().tx(tenant).await.unwrap();
    outbox_put(&tx, new_event_id(), "tool_policy.changed", &json!({})).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(drain_once(&world.database.connections().audit).await.unwrap(), 0);
}

#[tokio::test]
async fn a_running_writer_drains_by_itself_and_at_once_when_nudged() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    put(&world, tenant, 2).await;
    writer.nudge();
    eventually("the outbox is empty", async || left(&world).await == 0).await;
    put(&world, tenant, 2).await;
    eventually("the outbox is empty again", async || left(&world).await == 0).await;
    assert_eq!(numbers(&world, tenant).await, [0, 1, 0, 1]);
}

/// Whatever is killed, and whenever: each event is in the chain once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn each_event_arrives_once_although_backends_are_killed() {
    let world = World::new().await;
    let tenant = tenant();
    let writers = [world.writer(), world.writer()];
    let admin = world.database.admin_client().await;
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity
                where usename = 'coreci_audit' and datname = current_database() and pid <> pg_backend_pid()";
    let mut expected = Vec::new();
    for _ in 0..8 {
        put(&world, tenant, 300).await;
        expected.extend(0..300);
        writers.iter().for_each(audit::PostgresAudit::nudge);
        admin.execute(kill, &[]).await.unwrap();
    }
    // A killed backend may be one of the test's own: ask as the superuser.
    eventually("the outbox is empty", async || {
        writers.iter().for_each(audit::PostgresAudit::nudge);
        admin.query_one("select not exists (select from coreci.audit_outbox)", &[]).await.unwrap().get(0)
    })
    .await;

    assert_eq!(numbers(&world, tenant).await, expected);
    assert!(world.verdict(tenant).await.is_intact());
}

#[tokio::test]
async fn an_event_that_is_in_the_chain_already_is_not_written_again() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let event = fact(tenant, 0);
    writer.append(event.clone()).await.unwrap();
    let tx = world.database.tenancy().tx(tenant).await.unwrap();
    let once = EventId::from_ulid(Ulid::generate());
    for id in [event.id, once, once] {
        outbox_put(&tx, id, "tool_policy.changed", &json!({"number": 1})).await.unwrap();
    }
    tx.commit().await.unwrap();

    drain_once(&world.database.connections().audit).await.unwrap();
    eventually("the outbox is empty", async || left(&world).await == 0).await;
    assert_eq!(numbers(&world, tenant).await, [0, 1]);
}

#[tokio::test]
async fn nothing_in_the_outbox_can_pass_for_a_call() {
    let world = World::new().await;
    let client = world.database.connect_as("coreci_app").await;
    let tenant = tenant();
    client.batch_execute(&format!("select set_config('app.tenant_id', '{tenant}', false)")).await.unwrap();
    for (event_type, body) in [("adapter.capability_invoked", "{}"), ("tenant.created", "[]")] {
        let sql = format!(
            "insert into audit_outbox (tenant_id, event_id, event_type, body)
             values ('{tenant}', gen_random_uuid(), '{event_type}', '{body}')"
        );
        let error = client.batch_execute(&sql).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION));
    }
}

#[tokio::test]
async fn a_tenant_whose_chain_is_broken_does_not_hold_up_the_others() {
    let world = World::new().await;
    let (broken, healthy) = (tenant(), tenant());
    world.chain_of(broken, 3).await;
    let rewind = "update audit_heads h set seq = l.seq, hash = l.hash from audit_log l where l.seq = 1";
    world.saboteur().await.batch_execute(rewind).await.unwrap();
    put(&world, broken, 1).await;
    put(&world, healthy, 300).await;

    let error = drain_once(&world.database.connections().audit).await.unwrap_err();
    assert!(error.to_string().contains("a row was refused"), "{error}");
    assert_eq!(numbers(&world, healthy).await.len(), 300);
    assert_eq!(left(&world).await, 1);
}
