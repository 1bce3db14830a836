//! GitHub's rate limits and entity tags.

use std::time::{Duration, Instant};

use egress::testing::Reply;
use mcp_core::error::AdapterError;
use serde_json::json;

use crate::world::{RUNS, World, repo};

fn limited(retry_after_sec: u64) -> AdapterError {
    AdapterError::UpstreamRateLimited { retry_after_sec }
}

const DATE: &str = "Mon, 30 Nov 2026 10:00:00 GMT";
/// Ninety seconds later.
const RESET: &str = "1796032890";

// proves: GH-06, GH-07, C-E09
#[tokio::test]
async fn a_quota_that_is_spent_is_not_asked_again_before_its_reset() {
    let world = World::new().await;
    let last = Reply::json(200, json!([]))
        .header("date", DATE)
        .header("x-ratelimit-remaining", "0")
        .header("x-ratelimit-reset", RESET);
    world.server.on("/user/repos", last);

    assert!(world.call("github.list_repos", json!({})).await.is_ok());
    assert_eq!(world.refused("github.list_repos", json!({})).await, limited(90));
    assert_eq!(world.refused("github.get_recent_ci_runs", repo()).await, limited(90));
    assert_eq!(world.asked().len(), 1);
}

// proves: GH-07, GH-09, C-E09
#[tokio::test]
async fn every_form_of_refusal_becomes_seconds_and_is_asked_once() {
    let secondary = json!({"message": "You have exceeded a secondary rate limit. canary"});
    let table = [
        (Reply::json(429, json!({})).header("retry-after", "120"), 120),
        (Reply::json(403, json!({})).header("retry-after", "61").header("x-ratelimit-remaining", "0"), 61),
        (
            Reply::json(403, json!({}))
                .header("date", DATE)
                .header("x-ratelimit-remaining", "0")
                .header("x-ratelimit-reset", RESET),
            90,
        ),
        (Reply::json(403, secondary.clone()).header("x-ratelimit-remaining", "4000"), 60),
        (Reply::json(403, secondary), 60),
        (Reply::json(429, json!({})), 60),
    ];
    for (reply, seconds) in table {
        let world = World::new().await;
        world.server.on(RUNS, reply);
        assert_eq!(world.refused("github.get_recent_ci_runs", repo()).await, limited(seconds));
        assert_eq!(world.refused("github.get_recent_ci_runs", repo()).await, limited(seconds));
        assert_eq!(world.asked().len(), 1);
    }
}

// proves: GH-08
#[tokio::test]
async fn a_wait_that_fits_the_budget_is_waited_for() {
    let world = World::new().await;
    let first = std::sync::atomic::AtomicBool::new(true);
    world.server.on_fn("/user/repos", move |_| {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            Reply::json(429, json!({})).header("retry-after", "1")
        } else {
            Reply::json(200, json!([]))
        }
    });
    let started = Instant::now();
    assert!(world.call("github.list_repos", json!({})).await.is_ok());
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(world.asked().len(), 2);
}

// proves: GH-08
#[tokio::test]
async fn a_wait_that_leaves_no_time_for_an_answer_is_the_callers() {
    let world = World::with_budget(Duration::from_secs(3)).await;
    world.server.on("/user/repos", Reply::json(429, json!({})).header("retry-after", "3"));
    let started = Instant::now();
    assert_eq!(world.refused("github.list_repos", json!({})).await, limited(3));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn an_answer_that_is_confirmed_is_not_read_again() {
    let world = World::new().await;
    world.server.on_fn(RUNS, |seen| match seen.headers.get("if-none-match") {
        Some(tag) if tag == "W/\"one\"" => Reply::raw(304, "Not Modified", &[], ""),
        Some(_) => Reply::json(500, json!({})),
        None => Reply::json(200, json!({"total_count": 1, "workflow_runs": [{"id": 7}]}))
            .header("etag", "W/\"one\""),
    });
    let first = world.call("github.get_recent_ci_runs", repo()).await.expect("first");
    let second = world.call("github.get_recent_ci_runs", repo()).await.expect("second");
    assert_eq!(first, second);

    // Another question has no tag to ask with.
    let mut other = repo();
    other["per_page"] = json!(5);
    assert!(world.call("github.get_recent_ci_runs", other).await.is_ok());
    let tagged =
        world.server.requests().iter().filter(|seen| seen.headers.contains_key("if-none-match")).count();
    assert_eq!((world.asked().len(), tagged), (3, 1));
}

#[tokio::test]
async fn a_repository_that_was_taken_away_is_not_answered_from_memory() {
    let world = World::new().await;
    world.server.on_fn(RUNS, |seen| match seen.headers.get("if-none-match") {
        Some(_) => Reply::json(404, json!({"message": "Not Found"})),
        None => Reply::json(200, json!({"total_count": 0, "workflow_runs": []})).header("etag", "\"one\""),
    });
    assert!(world.call("github.get_recent_ci_runs", repo()).await.is_ok());
    assert!(matches!(world.refused("github.get_recent_ci_runs", repo()).await, AdapterError::NotFound(_)));
}

#[tokio::test]
async fn a_304_that_nobody_asked_for_is_no_answer() {
    let world = World::new().await;
    world.server.on(RUNS, Reply::raw(304, "Not Modified", &[], ""));
    assert!(matches!(world.refused("github.get_recent_ci_runs", repo()).await, AdapterError::Upstream(_)));
}
