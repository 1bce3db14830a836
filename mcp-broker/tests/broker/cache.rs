//! Answers of inventory tools are kept for a minute; those of live tools never are.

use std::time::Duration;

use mcp_core::error::AdapterError;
use mcp_core::principal::Scope;
use serde_json::{Value, json};

use crate::world::{Behaviour, World};

const LIST: &str = "github.list_repos";

async fn age(world: &World, args: Value) -> Option<u64> {
    let request = world.request(LIST, None, args);
    let output = world.broker.call(request).await.expect("started").result.expect("an answer");
    output.structured.get("cachedAgeSec").and_then(Value::as_u64)
}

// proves: B-13, T-12, C-B05
#[tokio::test(start_paused = true)]
async fn a_list_is_fetched_once_a_minute_per_target_and_each_call_is_audited() {
    let world = World::new();
    assert_eq!(age(&world, json!({})).await, None);
    tokio::time::advance(Duration::from_secs(12)).await;
    assert_eq!(age(&world, json!({})).await, Some(12));
    assert_eq!(age(&world, json!({"target_id": "forge"})).await, Some(12), "the same target by name");
    assert_eq!(world.reached(), 1);
    let cached = |event: &mcp_core::audit::AuditEvent| {
        event.body.clone().into_stored(|_| String::new()).get("cached").and_then(Value::as_bool)
    };
    let seen: Vec<_> = world.audit.events().iter().filter_map(cached).collect();
    assert_eq!(
        seen,
        [false, true, true],
        "every call has its two rows, and the outcome says where it came from"
    );

    tokio::time::advance(Duration::from_secs(48)).await;
    assert_eq!(age(&world, json!({})).await, None);
    assert_eq!(world.reached(), 2);
    world.add_target(5, "mirror");
    assert_eq!(age(&world, json!({"target_id": "mirror"})).await, None);
    assert_eq!(world.reached(), 3);
}

// proves: B-15, T-11
#[tokio::test(start_paused = true)]
async fn a_live_tool_is_never_cached() {
    let world = World::new();
    for _ in 0..3 {
        let args = json!({"owner": "o", "repo": "r"});
        assert_eq!(world.call("github.get_recent_ci_runs", args).await, "ok");
    }
    assert_eq!(world.reached(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_kept() {
    let world = World::new();
    world.behave(Behaviour::Fail(AdapterError::Malformed));
    assert_eq!(world.call(LIST, json!({})).await, "upstream_malformed");
    world.behave(Behaviour::Answer);
    assert_eq!(world.call(LIST, json!({})).await, "ok");
    assert_eq!(world.reached(), 2);
}

#[tokio::test(start_paused = true)]
async fn equal_calls_at_once_go_out_once_and_a_cancelled_one_hands_over() {
    let world = World::new();
    world.behave(Behaviour::Hang);
    let leader = world.broker.start(world.request(LIST, None, json!({})), mcp_broker::StreamMode::None).await;
    crate::world::eventually(|| world.reached() == 1).await;
    world.behave(Behaviour::Answer);
    let call = || world.call(LIST, json!({}));
    let waiting = async { tokio::join!(call(), call(), call()) };
    let (told, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(leader);
    });
    assert_eq!(told, ("ok", "ok", "ok"));
    assert_eq!(world.reached(), 2, "the leader that was cancelled, and one of those that waited");
}

// proves: C-B06
#[tokio::test(start_paused = true)]
async fn a_kept_answer_is_for_those_who_may_still_ask() {
    let mut world = World::new();
    assert_eq!(world.call(LIST, json!({})).await, "ok");
    world.grants = world.grants.clone().narrowed_to_targets(Scope::Only([].into()));
    assert_eq!(world.call(LIST, json!({})).await, "target_not_found");
}
