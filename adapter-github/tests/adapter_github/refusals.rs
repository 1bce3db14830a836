//! What GitHub refuses, and what a caller is told of it.

use egress::testing::{FakeServer, Reply};
use mcp_core::error::{AdapterError, ErrorCode};
use serde_json::json;

use crate::world::{RUNS, TOKEN, World, repo};

// proves: C-N14, GH-05, AD-05
#[tokio::test]
async fn each_refusal_has_its_code_and_none_quotes_the_body_or_is_asked_again() {
    let canary = json!({"message": "canary", "documentation_url": "https://canary"});
    let named = Reply::json(403, canary.clone()).header("x-accepted-github-permissions", "actions=read");
    let table = [
        (Reply::json(401, canary.clone()), ErrorCode::UpstreamAuth),
        (named, ErrorCode::InsufficientScope),
        (
            Reply::json(403, canary.clone()).header("x-github-sso", "required; url=https://x"),
            ErrorCode::InsufficientScope,
        ),
        (Reply::json(403, canary.clone()), ErrorCode::UpstreamError),
        (Reply::json(404, canary.clone()), ErrorCode::NotFound),
        (Reply::json(422, canary.clone()), ErrorCode::UpstreamError),
        (Reply::json(500, canary.clone()), ErrorCode::UpstreamError),
        (Reply::json(503, canary), ErrorCode::UpstreamError),
    ];
    for (reply, code) in table {
        let world = World::new().await;
        world.server.on(RUNS, reply);
        let error = world.refused("github.get_recent_ci_runs", repo()).await;
        assert_eq!(error.code(), code, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
        assert_eq!(world.asked().len(), 1);
    }
}

// proves: GH-05, T-16
#[tokio::test]
async fn a_missing_permission_and_a_missing_repository_are_named() {
    let world = World::new().await;
    let header = ("x-accepted-github-permissions", "actions=read");
    world.server.on(RUNS, Reply::json(403, json!({})).header(header.0, header.1));
    let scope = AdapterError::InsufficientScope { permission: "actions=read".to_owned() };
    assert_eq!(world.refused("github.get_recent_ci_runs", repo()).await, scope);

    let mut args = repo();
    args["run_id"] = json!(9);
    let missing = world.refused("github.get_workflow_run", args).await.to_string();
    assert!(missing.starts_with("run 9 of Octo-Org/Hello.World is missing or not granted"), "{missing}");
}

// proves: GH-02
#[tokio::test]
async fn a_token_that_github_calls_classic_is_not_used_further() {
    let world = World::new().await;
    world.server.on("/user/repos", Reply::json(200, json!([])).header("x-oauth-scopes", "repo, workflow"));
    assert_eq!(world.refused("github.list_repos", json!({})).await, AdapterError::UpstreamAuth);
}

// proves: C-F07
#[tokio::test]
async fn a_renamed_repository_is_followed_within_the_origin_with_the_same_headers() {
    let world = World::new().await;
    world.server.on(
        RUNS,
        Reply::raw(301, "Moved Permanently", &[("location", "/repositories/7/actions/runs?per_page=30")], ""),
    );
    world
        .server
        .on("/repositories/7/actions/runs", Reply::json(200, json!({"total_count": 0, "workflow_runs": []})));
    assert!(world.call("github.get_recent_ci_runs", repo()).await.is_ok());
    let last = world.server.requests().pop().expect("a request");
    let authorization = last.headers.get("authorization").and_then(|value| value.to_str().ok());
    assert_eq!(authorization, Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(world.asked()[1], "/repositories/7/actions/runs?per_page=30");
}

// proves: C-F07, C-F02
#[tokio::test]
async fn no_redirect_leads_to_another_origin_or_for_ever() {
    let elsewhere = FakeServer::http().await;
    for location in [
        format!("{}/x", elsewhere.url()),
        "https://169.254.169.254/".to_owned(),
        "//evil.example/".to_owned(),
        "ftp://x/".to_owned(),
    ] {
        let world = World::new().await;
        world.server.on(RUNS, Reply::raw(302, "Found", &[("location", &location)], ""));
        let error = world.refused("github.get_recent_ci_runs", repo()).await;
        assert_eq!(error.code(), ErrorCode::UpstreamError, "{location}: {error}");
        assert_eq!(world.asked().len(), 1);
    }
    assert_eq!(elsewhere.accepted(), 0);

    let world = World::new().await;
    world.server.on(RUNS, Reply::raw(301, "Moved", &[("location", RUNS)], ""));
    assert_eq!(world.refused("github.get_recent_ci_runs", repo()).await.code(), ErrorCode::UpstreamError);
    assert_eq!(world.asked().len(), 4);
}
