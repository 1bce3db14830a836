//! What the writer does with one event at a time.

use std::time::Duration;

use audit::verdict::Verdict;
use mcp_core::audit::{AuditError, AuditSink as _, Body, EventType, Link};
use serde_json::json;

use crate::world::{World, body_of, call, event, fact, intent, is_kept, outcome, tenant};

// proves: AU-01, AU-02, AU-08
#[tokio::test]
async fn a_call_is_an_intent_and_an_outcome() {
    let world = World::new().await;
    let (tenant, call, writer) = (tenant(), call(), world.writer());

    let first = writer.append(intent(tenant, call, writer.instance())).await.unwrap();
    let Verdict::Intact { open, .. } = world.verdict(tenant).await else {
        panic!("expected an intact chain")
    };
    assert_eq!(open.iter().map(|open| (open.correlation, open.seq)).collect::<Vec<_>>(), [(call, 1)]);
    let second = writer.append(outcome(tenant, call)).await.unwrap();

    let rows = world.rows(tenant).await;
    assert_eq!((first.seq, second.seq), (1, 2));
    assert!(is_kept(&rows, &first) && is_kept(&rows, &second));
    assert_eq!(rows[0].prev_hash, audit::canonical::GENESIS);
    assert_eq!(rows[0].fields().hash(&rows[0].prev_hash), rows[0].hash);
    assert_eq!(rows[1].prev_hash, rows[0].hash);
    assert_eq!(rows[0].event_type, "adapter.capability_invoked");
    let body = body_of(&rows[0]);
    assert_eq!(body["correlationId"], call.to_string());
    assert_eq!(body["instance"], writer.instance().to_string());
    let Verdict::Intact { rows: 2, open, .. } = world.verdict(tenant).await else {
        panic!("expected two rows")
    };
    assert!(open.is_empty());
}

// proves: C-K14
#[tokio::test]
async fn the_same_event_twice_is_one_row_with_one_receipt() {
    let world = World::new().await;
    let (tenant, call, writer, other) = (tenant(), call(), world.writer(), world.writer());
    let (fact, intent, outcome) =
        (fact(tenant, 1), intent(tenant, call, writer.instance()), outcome(tenant, call));

    for event in [fact, intent, outcome] {
        let (one, two) = tokio::join!(writer.append(event.clone()), writer.append(event.clone()));
        let three = other.append(event.clone()).await;
        assert_eq!((one.clone().unwrap(), one), (two.unwrap(), three));
    }
    assert_eq!(world.rows(tenant).await.len(), 3);
    assert!(world.verdict(tenant).await.is_intact());
}

#[tokio::test]
async fn a_second_outcome_is_refused_and_not_written() {
    let world = World::new().await;
    let (tenant, call, writer) = (tenant(), call(), world.writer());
    writer.append(intent(tenant, call, writer.instance())).await.unwrap();

    // Together, so that they meet in one batch.
    let (one, two) = tokio::join!(writer.append(outcome(tenant, call)), writer.append(outcome(tenant, call)));
    assert_eq!([one.is_ok(), two.is_ok()].iter().filter(|ok| **ok).count(), 1);
    assert_eq!(writer.append(outcome(tenant, call)).await, Err(AuditError::AlreadyClosed));
    assert_eq!(world.story(tenant, call).await, ["started", "finished success"]);
}

#[tokio::test]
async fn an_outcome_right_behind_its_intent_finds_it() {
    let world = World::new().await;
    let (tenant, call, writer) = (tenant(), call(), world.writer());
    let (one, two) = tokio::join!(
        writer.append(intent(tenant, call, writer.instance())),
        writer.append(outcome(tenant, call))
    );
    assert_eq!((one.unwrap().seq, two.unwrap().seq), (1, 2));
}

// proves: AU-11
#[tokio::test]
async fn sensitive_values_are_not_in_the_database() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let body =
        Body::new().sensitive("name", "canary-4711").public("args", json!({"Zoë": "\u{1F980} \\u0000"}));
    writer.append(event(tenant, EventType::KeyCreated, body, Link::Fact)).await.unwrap();

    let rows = world.rows(tenant).await;
    assert!(!String::from_utf8_lossy(&rows[0].body).contains("canary"));
    let sql = "select body_json #>> '{args,Zoë}', body_json ->> 'name' from audit_log";
    let row = world.auditor().await.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "\u{1F980} \\u0000");
    assert!(row.get::<_, &str>(1).starts_with("hmac-sha256:"));
}

#[tokio::test]
async fn a_nul_is_refused_before_it_is_queued() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let body = Body::new().public("name", "a\0b");
    let refused = writer.append(event(tenant, EventType::KeyCreated, body, Link::Fact)).await;
    assert!(matches!(refused, Err(AuditError::Refused(_))));
    assert!(world.rows(tenant).await.is_empty());
}

#[tokio::test]
async fn shutting_down_writes_what_is_queued_and_takes_nothing_more() {
    let world = World::new().await;
    let (tenant, writer) = (tenant(), world.writer());
    let queued = (0..100).map(|number| writer.append(fact(tenant, number)));
    let (results, shut) = tokio::join!(futures_util::future::join_all(queued), async {
        tokio::task::yield_now().await;
        writer.shutdown(Duration::from_secs(10)).await
    });
    shut.unwrap();

    let written = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(world.rows(tenant).await.len(), written);
    assert_eq!(writer.append(fact(tenant, 1)).await, Err(AuditError::Unavailable));
    assert!(!writer.health().writable);
}

/// The longest gap between two of our clocks is what the chain swallows: its time never goes back.
#[tokio::test]
async fn time_never_goes_back_in_a_chain() {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, 1).await;
    let ahead = "update audit_heads set at_us = at_us + 3600000000";
    world.saboteur().await.batch_execute(ahead).await.unwrap();
    world.chain_of(tenant, 2).await;

    let rows = world.rows(tenant).await;
    assert!(rows[1].at_us >= rows[0].at_us + 3_600_000_000 && rows[2].at_us >= rows[1].at_us);
    assert!(world.verdict(tenant).await.is_intact());
}
