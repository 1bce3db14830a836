//! An upstream that hangs, lies, breaks or echoes.

use std::time::{Duration, Instant};

use egress::TlsTrust;
use egress::testing::Reply;
use mcp_core::error::{AdapterError, ErrorCode};
use serde_json::json;

use crate::world::{RUNS, TOKEN, World, repo};

// proves: AD-04, C-N12
#[tokio::test]
async fn silence_and_drops_end_at_the_budget() {
    let budget = Duration::from_millis(300);
    let slow = Reply::json(200, json!([]));
    for reply in [slow.clone().delay(Duration::from_secs(30)), slow.drip(Duration::from_secs(20))] {
        let world = World::with_budget(budget).await;
        world.server.on("/user/repos", reply);
        let started = Instant::now();
        assert_eq!(world.refused("github.list_repos", json!({})).await, AdapterError::Timeout);
        assert!(started.elapsed() < Duration::from_secs(3));
    }
}

// proves: C-N12
#[tokio::test]
async fn a_connection_that_breaks_in_the_body_is_an_upstream_error() {
    let world = World::new().await;
    world.server.on(
        "/user/repos",
        Reply::json(200, json!([{"id": 1, "name": "x", "full_name": "o/x"}])).cut_after(9),
    );
    assert_eq!(world.refused("github.list_repos", json!({})).await.code(), ErrorCode::UpstreamError);
}

// proves: C-N10
#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let world = World::new().await;
    world.server.on(
        "/user/repos",
        Reply::raw(200, "OK", &[("content-type", "application/json")], vec![b' '; 4096]).endless(),
    );
    assert_eq!(world.refused("github.list_repos", json!({})).await, AdapterError::TooLarge);
}

// proves: C-N11, C-N13
#[tokio::test]
async fn what_is_no_list_of_repositories_is_malformed_and_not_repeated() {
    let deep = "[".repeat(10_000);
    for body in [
        "null",
        "{\"data\":null}",
        "<html>canary login</html>",
        "[{\"id\":\"canary\"}]",
        "\u{0}",
        deep.as_str(),
    ] {
        let world = World::new().await;
        world
            .server
            .on("/user/repos", Reply::raw(200, "OK", &[("content-type", "text/html")], body.to_owned()));
        assert_eq!(
            world.refused("github.list_repos", json!({})).await,
            AdapterError::Malformed,
            "{body:.30}"
        );
    }
}

// proves: C-N13
#[tokio::test]
async fn more_rows_than_were_asked_for_are_cut_and_numbers_may_be_text() {
    let world = World::new().await;
    let rows: Vec<_> =
        (0..1000).map(|id| json!({"id": id.to_string(), "name": "x", "full_name": "o/x"})).collect();
    world.server.on("/user/repos", Reply::json(200, json!(rows)));
    let listed = world.call("github.list_repos", json!({})).await.expect("listed");
    assert_eq!(listed["repos"].as_array().map(Vec::len), Some(100));
    assert_eq!(listed["truncated"], json!(true));
}

// proves: C-N15
#[tokio::test]
async fn an_echoed_credential_reaches_neither_result_nor_memory() {
    let world = World::new().await;
    world.server.on_fn(RUNS, |seen| {
        if seen.headers.contains_key("if-none-match") {
            return Reply::raw(304, "Not Modified", &[], "");
        }
        let echo = seen.headers["authorization"].to_str().expect("text").to_owned();
        Reply::json(200, json!({"total_count": 1, "workflow_runs": [{"id": 1, "name": echo}]}))
            .header("etag", "\"t\"")
    });
    for _ in 0..2 {
        let runs = world.call("github.get_recent_ci_runs", repo()).await.expect("runs").to_string();
        assert!(runs.contains("[REDACTED]") && !runs.contains(TOKEN), "{runs}");
    }
}

// proves: C-N15, C-N14
#[tokio::test]
async fn an_echoed_credential_reaches_no_message() {
    for status in [400, 401, 403, 404, 422, 500] {
        let world = World::new().await;
        world.server.on(
            RUNS,
            Reply::json(status, json!({"message": TOKEN})).header("x-accepted-github-permissions", TOKEN),
        );
        let error = world.refused("github.get_recent_ci_runs", repo()).await;
        assert!(!format!("{error} {error:?}").contains(TOKEN), "{status}: {error}");
    }
}

// proves: C-N12
#[tokio::test]
async fn a_body_whose_end_is_not_vouched_for_is_not_taken_for_whole() {
    let world = World::https(|server| TlsTrust::pin(&server.fingerprint()).expect("a pin")).await;
    world.server.on("/user/repos", Reply::json(200, json!([])).no_close_notify());
    assert_eq!(world.refused("github.list_repos", json!({})).await.code(), ErrorCode::UpstreamError);
}
