//! The database is slow, in the way, or gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use mcp_core::audit::{AuditError, AuditSink as _};
use tokio_postgres::Client;

use crate::world::{World, call, eventually, fact, intent, is_kept, outcome, tenant};

const BACKENDS: &str = "from pg_stat_activity
    where usename = 'coreci_audit' and datname = current_database() and pid <> pg_backend_pid()";

/// A session that holds the log locked until it is told to commit.
async fn lock(world: &World) -> Client {
    let locker = world.database.admin_client().await;
    locker.batch_execute("begin; lock table coreci.audit_log in access exclusive mode").await.unwrap();
    locker
}

async fn waits_for_the_lock(admin: &Client) -> bool {
    let sql = format!("select exists (select {BACKENDS} and wait_event_type = 'Lock')");
    admin.query_one(&sql, &[]).await.unwrap().get(0)
}

// proves: AU-04, C-K16
#[tokio::test]
async fn a_slow_log_fails_the_call_in_time_and_closes_its_intent_later() {
    let world = World::new().await;
    // The settings of production: two seconds.
    let (tenant, call, writer) = (tenant(), call(), world.writer_with(|_| {}));
    eventually("it is connected", async || writer.health().writable).await;

    let locker = lock(&world).await;
    let start = Instant::now();
    let result = writer.append(intent(tenant, call, writer.instance())).await;
    let took = start.elapsed();
    assert_eq!(result, Err(AuditError::Unavailable));
    assert!(took < Duration::from_secs(3), "it took {took:?}");
    locker.batch_execute("commit").await.unwrap();

    // The intent was withdrawn in time, or it was written and closed: never left open.
    writer.shutdown(Duration::from_secs(10)).await.unwrap();
    let story = world.story(tenant, call).await;
    assert!(story.is_empty() || story == ["started", "finished interrupted"], "{story:?}");
    assert!(world.verdict(tenant).await.is_intact());
}

// proves: C-K16
#[tokio::test]
async fn an_intent_that_was_sent_before_its_caller_left_is_closed_as_interrupted() {
    let world = World::new().await;
    let (tenant, call, writer) = (tenant(), call(), world.hasty_writer());
    eventually("it is connected", async || writer.health().writable).await;
    let admin = world.database.admin_client().await;

    let locker = lock(&world).await;
    let appended = writer.append(intent(tenant, call, writer.instance()));
    let (result, ()) =
        tokio::join!(appended, eventually("it waits", async || waits_for_the_lock(&admin).await));
    assert_eq!(result, Err(AuditError::Unavailable));
    locker.batch_execute("commit").await.unwrap();

    eventually("the intent is closed", async || world.story(tenant, call).await.len() == 2).await;
    assert_eq!(world.story(tenant, call).await, ["started", "finished interrupted"]);
    // Whoever believed in it nevertheless is told.
    assert_eq!(world.writer().append(outcome(tenant, call)).await, Err(AuditError::AlreadyClosed));
}

// proves: C-K15, C-K16
#[tokio::test]
async fn what_waits_behind_a_slow_batch_is_withdrawn_or_owed() {
    let world = World::new().await;
    let (tenant, begun, never, writer) = (tenant(), call(), call(), world.hasty_writer());
    world.writer().append(intent(tenant, begun, writer.instance())).await.unwrap();
    eventually("it is connected", async || writer.health().writable).await;
    let admin = world.database.admin_client().await;

    let locker = lock(&world).await;
    let first = writer.append(fact(tenant, 0));
    let (first, ()) = tokio::join!(first, eventually("it waits", async || waits_for_the_lock(&admin).await));
    assert_eq!(first, Err(AuditError::Unavailable));
    assert_eq!(writer.append(intent(tenant, never, writer.instance())).await, Err(AuditError::Unavailable));
    assert_eq!(writer.append(outcome(tenant, begun)).await, Err(AuditError::Unavailable));
    locker.batch_execute("commit").await.unwrap();

    eventually("the outcome is written", async || world.story(tenant, begun).await.len() == 2).await;
    writer.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(world.story(tenant, begun).await, ["started", "finished success"]);
    // On a slow machine it may have been sent in time.
    let story = world.story(tenant, never).await;
    assert!(story.is_empty() || story == ["started", "finished interrupted"], "{story:?}");
    assert!(world.rows(tenant).await.iter().any(|row| row.event_type == "auth.key_created"));
}

#[tokio::test]
async fn a_caller_that_walks_away_leaves_nothing_open() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let calls: Vec<_> = (0..50).map(|_| call()).collect();
    for (number, call) in calls.iter().enumerate() {
        let append = writer.append(intent(tenant, *call, writer.instance()));
        // Polled once, then dropped a little later each time.
        let _ = tokio::time::timeout(Duration::from_micros(100 * number as u64), append).now_or_never();
    }
    let patient: Vec<_> = (0..50).map(|_| call()).collect();
    for (number, call) in patient.iter().enumerate() {
        let append = writer.append(intent(tenant, *call, writer.instance()));
        let waited = tokio::time::timeout(Duration::from_micros(50 * number as u64), append).await;
        if let Ok(result) = waited {
            result.unwrap();
            writer.append(outcome(tenant, *call)).await.unwrap();
        }
    }
    writer.shutdown(Duration::from_secs(10)).await.unwrap();
    let audit::verdict::Verdict::Intact { open, .. } = world.verdict(tenant).await else {
        panic!("expected an intact chain")
    };
    assert_eq!(open, []);
}

// proves: C-K15
#[tokio::test]
async fn a_server_that_refuses_raises_an_alert_and_recovers() {
    let world = World::new().await;
    let (tenant, call, writer) = (tenant(), call(), world.hasty_writer());
    world.writer().append(intent(tenant, call, writer.instance())).await.unwrap();
    eventually("it is connected", async || writer.health().writable).await;
    let admin = world.database.admin_client().await;

    let broken = "alter table coreci.audit_log add constraint broken check (event_type = '') not valid";
    admin.batch_execute(broken).await.unwrap();
    assert_eq!(writer.append(fact(tenant, 0)).await, Err(AuditError::Unavailable));
    assert_eq!(writer.append(outcome(tenant, call)).await, Err(AuditError::Unavailable));
    let says = |text: &str| writer.health().last_error.is_some_and(|error| error.contains(text));
    eventually("it raises an alert", async || says("23514")).await;
    admin.batch_execute("alter table coreci.audit_log drop constraint broken").await.unwrap();

    eventually("what is owed is written", async || world.rows(tenant).await.len() == 3).await;
    assert_eq!(world.story(tenant, call).await, ["started", "finished success"]);
}

// proves: C-K15
#[tokio::test]
async fn one_poisonous_row_does_not_stop_the_others() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let poison = "alter table coreci.audit_log
                  add constraint poison check (event_type <> 'adapter.capability_invoked')";
    world.database.admin_client().await.batch_execute(poison).await.unwrap();

    let event = |number| match number {
        13 => intent(tenant, call(), writer.instance()),
        number => fact(tenant, number),
    };
    let results = join_all((0..30).map(|number| writer.append(event(number)))).await;
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.is_ok(), number != 13, "{number}: {result:?}");
    }
    assert!(world.verdict(tenant).await.is_intact());
}

// proves: C-L05
#[tokio::test]
async fn a_read_only_server_is_not_written_to() {
    let world = World::new().await;
    let name = world.database.name().to_owned();
    let admin = world.database.admin_client().await;
    admin
        .batch_execute(&format!("alter database {name} set default_transaction_read_only = on"))
        .await
        .unwrap();
    let (tenant, writer) = (tenant(), world.hasty_writer());

    assert_eq!(writer.append(fact(tenant, 0)).await, Err(AuditError::Unavailable));
    let says = |text: &str| writer.health().last_error.is_some_and(|error| error.contains(text));
    eventually("it says why", async || says("read-only")).await;
    let off =
        format!("set transaction read write; alter database {name} reset default_transaction_read_only");
    let admin = world.database.admin_client().await;
    admin.batch_execute(&format!("begin; {off}; commit")).await.unwrap();
    eventually("the fact is written", async || world.rows(tenant).await.len() == 1).await;
}

// proves: C-L03, C-K14
#[tokio::test(flavor = "multi_thread")]
async fn killed_backends_lose_and_repeat_nothing() {
    let world = World::new().await;
    let tenant = tenant();
    let writer = Arc::new(world.writer());
    let admin = world.database.admin_client().await;

    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move {
                let mut results = Vec::new();
                for round in 0..40 {
                    let (call, event) = (call(), fact(tenant, task * 1000 + round));
                    results.push((event.id, writer.append(event).await));
                    if writer.append(intent(tenant, call, writer.instance())).await.is_ok() {
                        let event = outcome(tenant, call);
                        results.push((event.id, writer.append(event).await));
                    }
                }
                results
            })
        })
        .collect();
    let mut kills = 0;
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        kills += admin.execute(&format!("select pg_terminate_backend(pid) {BACKENDS}"), &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(kills > 0, "nothing was killed");
    let results: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    writer.shutdown(Duration::from_secs(10)).await.unwrap();

    let rows = world.rows(tenant).await;
    for (event, result) in results {
        // Whether acknowledged or still owed at the time: it is there, once.
        assert_eq!(rows.iter().filter(|row| row.event_id == event).count(), 1, "{result:?}");
        if let Ok(receipt) = result {
            assert!(is_kept(&rows, &receipt));
        }
    }
    let audit::verdict::Verdict::Intact { open, .. } = world.verdict(tenant).await else {
        panic!("expected an intact chain")
    };
    assert_eq!(open, []);
}

// proves: C-L01
#[tokio::test]
async fn without_a_database_calls_fail_in_time_and_what_is_owed_is_written_when_it_comes() {
    let world = World::new().await;
    let (tenant, call) = (tenant(), call());
    let name = world.database.name().to_owned();
    let before = world.hasty_writer();
    world.writer().append(intent(tenant, call, before.instance())).await.unwrap();
    let postgres = {
        let mut config = world.database.config("coreci_admin");
        config.dbname("postgres");
        config
    };
    let (admin, connection) = postgres.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    admin.batch_execute(&format!("alter database {name} with allow_connections false")).await.unwrap();
    let kill = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1";
    admin.query(kill, &[&name]).await.unwrap();

    let start = Instant::now();
    assert_eq!(before.append(outcome(tenant, call)).await, Err(AuditError::Unavailable));
    assert_eq!(
        before.append(intent(tenant, self::call(), before.instance())).await,
        Err(AuditError::Unavailable)
    );
    assert!(start.elapsed() < Duration::from_secs(4));
    eventually("it raises an alert", async || !before.health().writable).await;

    admin.batch_execute(&format!("alter database {name} with allow_connections true")).await.unwrap();
    eventually("the outcome is written", async || world.rows(tenant).await.len() == 2).await;
    assert!(world.verdict(tenant).await.is_intact());
}

// proves: C-K15
#[tokio::test]
async fn a_full_queue_refuses_intents_at_once_and_still_takes_outcomes() {
    let world = World::new().await;
    let writer = world.writer_with(|config| {
        (config.queue, config.shards, config.deadline) = (4, 1, Duration::from_secs(30));
    });
    let (tenant, begun) = (tenant(), call());
    writer.append(intent(tenant, begun, writer.instance())).await.unwrap();
    let admin = world.database.admin_client().await;
    let locker = lock(&world).await;

    let in_flight = writer.append(fact(tenant, 0));
    let queued = join_all((1..=4).map(|number| writer.append(fact(tenant, number))));
    let late = async {
        eventually("a batch waits", async || waits_for_the_lock(&admin).await).await;
        eventually("the queue is full", async || writer.health().queued >= 4).await;
        let start = Instant::now();
        let refused = writer.append(intent(tenant, call(), writer.instance())).await;
        assert_eq!(refused, Err(AuditError::Unavailable));
        assert!(start.elapsed() < Duration::from_secs(2));
        let closing = writer.append(outcome(tenant, begun));
        let (closing, ()) = tokio::join!(closing, async { locker.batch_execute("commit").await.unwrap() });
        closing
    };
    let (first, closing) = tokio::join!(in_flight, async {
        // One poll each puts them into the queue behind the batch that waits.
        let (queued, closing) = tokio::join!(
            async {
                eventually("a batch waits", async || waits_for_the_lock(&admin).await).await;
                queued.await
            },
            late
        );
        assert!(queued.iter().all(Result::is_ok), "{queued:?}");
        closing
    });
    first.unwrap();
    closing.unwrap();
    assert_eq!(world.story(tenant, begun).await, ["started", "finished success"]);
}
