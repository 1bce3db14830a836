//! The lease, and the sweeper that needs it.

use std::time::Duration;

use audit::lease::{InstanceLease, LeaseError};
use audit::sweeper::{SweepError, sweep};
use mcp_core::audit::{AuditError, AuditSink as _};

use crate::world::{World, call, eventually, intent, outcome, tenant};

#[tokio::test]
async fn one_replica_holds_the_lease_and_the_next_gets_it_when_that_is_gone() {
    let world = World::new().await;
    let config = world.database.connections().audit;

    let first = InstanceLease::acquire(&config).await.unwrap();
    let second = InstanceLease::acquire_within(&config, Duration::ZERO).await;
    assert!(matches!(second, Err(LeaseError::HeldByAnother)));

    drop(first);
    assert!(InstanceLease::acquire(&config).await.unwrap().is_held());
}

#[tokio::test]
async fn a_lease_that_lost_its_connection_is_taken_again() {
    let world = World::new().await;
    let lease = InstanceLease::acquire(&world.database.connections().audit).await.unwrap();

    let admin = world.database.admin_client().await;
    let holder = "select pid from pg_locks where locktype = 'advisory'
                  and database = (select oid from pg_database where datname = current_database())";
    let before: i32 = admin.query_one(holder, &[]).await.unwrap().get(0);
    admin.query("select pg_terminate_backend($1)", &[&before]).await.unwrap();

    eventually("the lock has a new holder", async || {
        let now: Option<i32> = admin.query_opt(holder, &[]).await.unwrap().map(|row| row.get(0));
        now.is_some_and(|now| now != before)
    })
    .await;
    eventually("the lease is held", async || lease.is_held()).await;
}

// proves: C-K18
#[tokio::test]
async fn what_a_dead_run_left_open_is_closed_exactly_once() {
    let world = World::new().await;
    let tenant = tenant();
    let calls: Vec<_> = (0..300).map(|_| call()).collect();
    let dead = world.writer();
    for call in &calls {
        dead.append(intent(tenant, *call, dead.instance())).await.unwrap();
    }
    dead.append(outcome(tenant, calls[0])).await.unwrap();

    let writer = world.writer();
    let mine = call();
    writer.append(intent(tenant, mine, writer.instance())).await.unwrap();
    let lease = InstanceLease::acquire(&world.database.connections().audit).await.unwrap();
    let (one, other) = tokio::join!(sweep(&writer, &lease), sweep(&writer, &lease));
    assert_eq!(one.unwrap() + other.unwrap(), 299);
    assert_eq!(sweep(&writer, &lease).await.unwrap(), 0);

    assert_eq!(world.story(tenant, calls[0]).await, ["started", "finished success"]);
    for call in &calls[1..20] {
        assert_eq!(world.story(tenant, *call).await, ["started", "finished interrupted"]);
    }
    // Whoever comes back from the dead is too late, and a living call is not touched.
    assert_eq!(dead.append(outcome(tenant, calls[1])).await, Err(AuditError::AlreadyClosed));
    writer.append(outcome(tenant, mine)).await.unwrap();
    assert!(world.verdict(tenant).await.is_intact());
}

#[tokio::test]
async fn nothing_is_swept_without_the_lease() {
    let world = World::new().await;
    let (tenant, dead, writer) = (tenant(), world.writer(), world.writer());
    dead.append(intent(tenant, call(), dead.instance())).await.unwrap();

    let config = world.database.connections().audit;
    let lease = InstanceLease::acquire(&config).await.unwrap();
    let admin = world.database.admin_client().await;
    // A rival takes the lock the moment it is free.
    let rival = world.auditor().await;
    let key = "select (classid::int8 << 32) | objid::int8, pid from pg_locks where locktype = 'advisory'
               and database = (select oid from pg_database where datname = current_database())";
    let row = admin.query_one(key, &[]).await.unwrap();
    let (key, pid): (i64, i32) = (row.get(0), row.get(1));
    let take = format!("select pg_advisory_lock({key})");
    let waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted
                 and database = (select oid from pg_database where datname = current_database()))";
    let (taken, ()) = tokio::join!(rival.batch_execute(&take), async {
        eventually("the rival waits", async || admin.query_one(waits, &[]).await.unwrap().get(0)).await;
        admin.query("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    });
    taken.unwrap();

    eventually("the loss is noticed", async || !lease.is_held()).await;
    assert!(matches!(sweep(&writer, &lease).await, Err(SweepError::LeaseLost)));
}
