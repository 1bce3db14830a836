//! An upstream that hangs, lies, breaks, redirects or echoes.

use std::time::{Duration, Instant};

use egress::TlsTrust;
use egress::testing::{FakeServer, Reply};
use mcp_core::error::{AdapterError, ErrorCode};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{RUNS, TOKEN, USER_REPOS, World, repo};

async fn refused_with(reply: Reply) -> AdapterError {
    let world = World::new().await;
    world.server.on(USER_REPOS, reply);
    let error = world.refused("gitea.list_repos", json!({})).await;
    assert_eq!(world.asked().len(), 1);
    error
}

// proves: AD-04, C-N12
#[tokio::test]
async fn silence_and_drops_end_at_the_budget() {
    let slow = Reply::json(200, json!([]));
    for reply in [slow.clone().delay(Duration::from_secs(30)), slow.drip(Duration::from_secs(20))] {
        let world = World::with_budget(Duration::from_millis(300)).await;
        world.server.on(USER_REPOS, reply);
        let started = Instant::now();
        assert_eq!(world.refused("gitea.list_repos", json!({})).await, AdapterError::Timeout);
        assert!(started.elapsed() < Duration::from_secs(3));
    }
}

// proves: C-N10, C-N12
#[tokio::test]
async fn a_body_that_breaks_or_never_ends_is_an_error() {
    let cut = Reply::json(200, json!([{"id": 1, "name": "x", "full_name": "o/x"}])).cut_after(9);
    assert_eq!(refused_with(cut).await.code(), ErrorCode::UpstreamError);
    let endless = Reply::raw(200, "OK", &[], vec![b' '; 4096]).endless();
    assert_eq!(refused_with(endless).await, AdapterError::TooLarge);
}

// proves: C-N11, C-N13
#[tokio::test]
async fn what_is_no_list_of_repositories_is_malformed_and_not_repeated() {
    for body in ["null", "{\"data\":null}", "<html>canary login</html>", "[{\"id\":\"canary\"}]", "\u{0}"] {
        let reply = Reply::raw(200, "OK", &[("content-type", "text/html")], body);
        assert_eq!(refused_with(reply).await, AdapterError::Malformed, "{body}");
    }
}

// proves: AD-05, C-N14, C-N15, C-E09
#[tokio::test]
async fn each_refusal_has_its_code_and_quotes_nothing() {
    for (status, code) in [
        (401, ErrorCode::UpstreamAuth),
        (403, ErrorCode::InsufficientScope),
        (404, ErrorCode::NotFound),
        (418, ErrorCode::UpstreamError),
        (429, ErrorCode::UpstreamRateLimited),
        (500, ErrorCode::UpstreamError),
        (503, ErrorCode::UpstreamError),
    ] {
        let message = format!("required scope(s): [{TOKEN}]");
        let error = refused_with(Reply::json(status, json!({"message": message}))).await;
        assert_eq!(error.code(), code, "{status}");
        assert!(!format!("{error} {error:?}").contains(TOKEN), "{error}");
    }
}

// proves: C-N15
#[tokio::test]
async fn an_echoed_credential_is_taken_out_of_the_result() {
    let world = World::new().await;
    let row = json!({"id": 1, "name": "x", "full_name": "o/x", "description": format!("token {TOKEN}")});
    world.server.on(USER_REPOS, Reply::json(200, json!([row])).header("x-total-count", "1"));
    let listed = world.call("gitea.list_repos", json!({})).await.expect("listed");
    assert_eq!(listed["repos"][0]["description"], json!("token [REDACTED]"));
}

// proves: C-F07, C-F02
#[tokio::test]
async fn a_renamed_repository_is_followed_within_the_origin_and_nothing_beyond_it() {
    let world = World::new().await;
    let moved = "/api/v1/repos/Octo/Renamed/actions/runs";
    world
        .server
        .on(RUNS, Reply::raw(307, "Temporary Redirect", &[("location", &format!("{moved}?limit=30"))], ""));
    world.server.on(moved, Reply::json(200, json!({"total_count": 0, "workflow_runs": null})));
    assert!(world.call("gitea.get_recent_ci_runs", repo()).await.is_ok());
    let last = world.server.requests().pop().expect("a request");
    assert_eq!(last.headers["authorization"], format!("token {TOKEN}").as_str());
    assert_eq!(world.asked()[1], format!("{moved}?limit=30"));

    let elsewhere = FakeServer::http().await;
    for location in [
        format!("{}/x", elsewhere.url()),
        "https://169.254.169.254/".to_owned(),
        "//evil.example/".to_owned(),
    ] {
        let reply = Reply::raw(302, "Found", &[("location", &location)], "");
        assert_eq!(refused_with(reply).await.code(), ErrorCode::UpstreamError, "{location}");
    }
    assert_eq!(elsewhere.accepted(), 0);
}

// proves: C-F02, C-F04, GT-08, C-Q22
#[test]
fn no_argument_makes_another_path_on_the_wire() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let world = runtime.block_on(World::new());
    let text = || {
        prop_oneof![".{0,12}", "[A-Za-z0-9._-]{1,12}", Just("../..".to_owned()), Just("%2e%2e".to_owned())]
    };
    let cases = ProptestConfig { cases: 48, ..ProptestConfig::default() };
    proptest!(cases, |(owner in text(), name in text(), limit in any::<u32>())| {
        runtime.block_on(async {
            let args = json!({"owner": owner, "repo": name, "limit": limit});
            let _ = world.call("gitea.get_recent_ci_runs", args).await;
        });
    });
    for asked in world.asked() {
        let path = asked.split_once('?').map_or(asked.as_str(), |(path, _)| path);
        let segments: Vec<_> = path.split('/').skip(1).collect();
        assert_eq!(segments[..3], ["api", "v1", "repos"], "{path}");
        assert!(matches!(segments[5..], [] | ["actions", "runs" | "tasks"]), "{path}");
        assert!(segments.iter().all(|part| !part.is_empty() && *part != "." && *part != ".."), "{path}");
    }
}

// proves: C-N12
#[tokio::test]
async fn a_body_whose_end_is_not_vouched_for_is_not_taken_for_whole() {
    let world = World::https(|server| TlsTrust::pin(&server.fingerprint()).expect("a pin")).await;
    world.server.on(USER_REPOS, Reply::json(200, json!([])).no_close_notify());
    assert_eq!(world.refused("gitea.list_repos", json!({})).await.code(), ErrorCode::UpstreamError);
}
