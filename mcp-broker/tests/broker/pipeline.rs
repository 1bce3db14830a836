//! Calls that leave the building: intent before, outcome after, and no intent without an outcome.

use std::time::Duration;

use futures_util::StreamExt;
use mcp_broker::{CALL_DEADLINE, StreamMode};
use mcp_core::audit::{EventType, Link};
use mcp_core::error::AdapterError;
use mcp_core::stream::{CallEventKind, Delivery, StreamOwner};
use serde_json::json;

use crate::world::{Behaviour, TENANT, World, code, eventually};

fn invoked(phase: &str, last: &str) -> (EventType, String, String) {
    (EventType::CapabilityInvoked, phase.to_owned(), last.to_owned())
}

// proves: INV-4, AU-02, AU-08, S-06
#[tokio::test(start_paused = true)]
async fn the_intent_is_committed_before_the_adapter_and_the_outcome_before_the_release() {
    let world = World::new();
    let finished =
        world.broker.call(world.request("github.list_repos", None, json!({}))).await.expect("started");

    assert_eq!(world.audited(), [invoked("started", ""), invoked("finished", "success")]);
    assert_eq!(*world.adapter.intents_seen.lock().expect("lock"), [1]);
    assert_eq!(finished.receipt.expect("a receipt").seq, 2);
    let events = world.audit.events();
    let Link::Intent { correlation, .. } = events[0].link else { panic!("no intent") };
    assert_eq!(events[1].link, Link::Outcome { correlation });
    assert_eq!(finished.correlation, correlation);
}

// proves: AU-08, C-G14
#[tokio::test(start_paused = true)]
async fn an_outcome_says_how_it_ended() {
    let cases = [
        (AdapterError::Upstream("down".to_owned()), "upstream_error", "failure"),
        (
            AdapterError::InsufficientScope { permission: "actions:read".to_owned() },
            "insufficient_scope",
            "failure",
        ),
        (AdapterError::Timeout, "upstream_timeout", "timeout"),
        (AdapterError::AgentDisconnected, "agent_disconnected", "failure"),
    ];
    for (error, expected, outcome) in cases {
        let world = World::new();
        world.behave(Behaviour::Fail(error));
        assert_eq!(world.call("github.list_repos", json!({})).await, expected);
        assert_eq!(world.audited()[1], invoked("finished", outcome));
    }

    // What only the agent refuses is told and written as if the first wall had refused it.
    let world = World::new();
    world.behave(Behaviour::Fail(AdapterError::RejectedByAgent));
    assert_eq!(world.call("github.list_repos", json!({})).await, "command_not_whitelisted");
    assert_eq!(world.audited()[1], invoked("finished", "rejected"));
    assert_eq!(world.audited()[2].0, EventType::WriteRejected);
}

// proves: AD-04, NFR-1, C-Q09
#[tokio::test(start_paused = true)]
async fn a_hanging_upstream_is_left_after_ten_seconds() {
    let world = World::new();
    world.behave(Behaviour::Hang);
    let before = tokio::time::Instant::now();
    assert_eq!(world.call("github.list_repos", json!({})).await, "upstream_timeout");
    assert_eq!(before.elapsed().as_secs(), CALL_DEADLINE.as_secs());
    assert_eq!(world.aborted(), 1);
    assert_eq!(world.audited()[1], invoked("finished", "timeout"));
}

// proves: E-10, M2-E8, C-Q08
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_stops_the_upstream_and_the_intent_is_closed() {
    let world = World::new();
    world.behave(Behaviour::Hang);
    let request = world.request("github.list_repos", None, json!({}));
    let gone = tokio::time::timeout(Duration::from_millis(100), world.broker.call(request)).await;

    assert!(gone.is_err(), "the call hangs");
    eventually(|| world.audited().len() == 2).await;
    assert_eq!(world.aborted(), 1);
    assert_eq!(world.audited()[1], invoked("finished", "cancelled"));
}

// proves: C-O10
#[tokio::test(start_paused = true)]
async fn a_panicking_adapter_is_that_calls_failure_only() {
    let world = World::new();
    world.behave(Behaviour::Panic);
    assert_eq!(world.call("github.list_repos", json!({})).await, "internal");
    assert_eq!(world.audited()[1], invoked("finished", "failure"));
    world.behave(Behaviour::Answer);
    assert_eq!(world.call("github.list_repos", json!({})).await, "ok");
}

// proves: INV-4
#[tokio::test(start_paused = true)]
async fn a_result_whose_outcome_cannot_be_written_is_withheld() {
    let world = World::new();
    world.behave(Behaviour::Hang);
    let request = world.request("github.list_repos", None, json!({}));
    let running = world.broker.start(request, StreamMode::None).await.expect("started");
    world.audit.set_broken(true);
    let finished = running.wait().await;
    assert_eq!(code(finished.result), "audit_unavailable");
    assert_eq!(finished.receipt, None);
}

// proves: C-O02
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_calls_and_interrupts_the_rest() {
    let world = World::new();
    world.behave(Behaviour::Hang);
    let request = world.request("github.list_repos", None, json!({}));
    let running = world.broker.start(request, StreamMode::None).await.expect("started");

    world.broker.shutdown(Duration::from_secs(2)).await;
    assert_eq!(world.audited()[1], invoked("finished", "interrupted"));
    assert_eq!(code(running.wait().await.result), "shutting_down");
    assert_eq!(world.call("github.list_repos", json!({})).await, "shutting_down");
}

// proves: E-03, M-15
#[tokio::test(start_paused = true)]
async fn a_streamed_call_ends_with_done_or_error_also_when_nobody_opens_it() {
    let world = World::new();
    let owner = StreamOwner { tenant: TENANT, principal: world.principal().id };
    let args = json!({"owner": "o", "repo": "r", "run_id": 1});
    let start = || {
        let request = world.request("github.get_workflow_run", None, args.clone());
        world.broker.start(request, StreamMode::Buffered)
    };

    let running = start().await.expect("started");
    let call = running.correlation;
    running.detach();
    let stream = world.broker.streams().attach(call, owner, None).await.expect("attached");
    let kinds: Vec<_> = stream.map(kind).collect().await;
    assert_eq!(kinds, [CallEventKind::ToolResult, CallEventKind::Done]);

    world.behave(Behaviour::Fail(AdapterError::Malformed));
    let running = start().await.expect("started");
    let call = running.correlation;
    running.detach();
    let stream = world.broker.streams().attach(call, owner, None).await.expect("attached");
    let kinds: Vec<_> = stream.map(kind).collect().await;
    assert_eq!(kinds, [CallEventKind::Error]);

    // A hanging adapter would be left after 10 s; a stream that nobody opens has 30 s. So the deadline comes first, and
    // the call that nobody looks at still gets its outcome.
    world.behave(Behaviour::Hang);
    start().await.expect("started").detach();
    eventually_in(Duration::from_secs(40), || world.audited().len() == 6).await;
    assert_eq!(world.audited()[5], invoked("finished", "timeout"));
}

async fn eventually_in(patience: Duration, done: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + patience;
    while !done() {
        assert!(tokio::time::Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn kind(delivery: Delivery) -> CallEventKind {
    match delivery {
        Delivery::Event(event) => event.kind,
        Delivery::TooSlow => panic!("too slow"),
    }
}
