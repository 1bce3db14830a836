//! What the tools ask and what they make of the answers.

use egress::testing::Reply;
use mcp_core::error::AdapterError;
use mcp_core::tool::github::{CiRun, CiRunList, RepoList};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::world::{RUNS, TOKEN, World, repo, repos_body, run_body, runs_body};

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the tool's own result type")
}

// proves: T-05, T-13, T-16, GH-01, REQ-022, REQ-027, AD-08
#[tokio::test]
async fn repositories_are_the_first_page_as_small_rows_in_their_own_casing() {
    let world = World::new().await;
    let mut repos = repos_body();
    repos[1]["id"] = json!("1296270");
    world.server.on("/user/repos?per_page=100", Reply::json(200, repos));

    let listed = world.call("github.list_repos", json!({})).await.expect("listed");

    assert_eq!(
        listed,
        json!({"truncated": false, "repos": [
            {"id": 1_296_269, "name": "Hello.World", "full_name": "Octo-Org/Hello.World", "owner": "Octo-Org",
             "private": true, "description": "Says hello to whoever asks",
             "html_url": "https://github.com/Octo-Org/Hello.World", "default_branch": "main",
             "updated_at": "2026-11-26T19:14:43Z"},
            {"id": 1_296_270, "name": ".github", "full_name": "Octo-Org/.github", "owner": "Octo-Org",
             "private": false, "html_url": "https://github.com/Octo-Org/.github", "default_branch": "main"}]})
    );
    assert_eq!(world.asked(), ["/user/repos?per_page=100"]);
    let seen = world.server.requests().remove(0);
    let header = |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    assert_eq!(header("authorization"), format!("Bearer {TOKEN}"));
    assert_eq!(header("accept"), "application/vnd.github+json");
    assert_eq!(header("x-github-api-version"), "2022-11-28");
    assert!(!header("user-agent").is_empty());
    assert!(typed::<RepoList>(listed).repos[0].private);
}

// proves: T-05
#[tokio::test]
async fn a_list_says_when_there_is_more() {
    let world = World::new().await;
    let next =
        "<https://api.github.com/user/repos?per_page=100&page=2>; rel=\"next\", <https://x/>; rel=\"last\"";
    world.server.on("/user/repos", Reply::json(200, repos_body()).header("link", next));
    let listed: RepoList = typed(world.call("github.list_repos", json!({})).await.expect("listed"));
    assert!(listed.extent.truncated);
    assert!(listed.extent.hint.expect("a hint").contains("first 2"));
}

// proves: T-06, GH-10, REQ-022, AD-08
#[tokio::test]
async fn runs_are_asked_for_as_wanted_and_come_as_small_rows() {
    let world = World::new().await;
    let nulls = json!({"id": 7, "name": null, "head_branch": null, "status": null, "conclusion": null,
        "pull_requests": null, "actor": null});
    let mut runs = runs_body();
    runs["total_count"] = json!(40);
    runs["workflow_runs"].as_array_mut().expect("rows").push(nulls);
    world.server.on(RUNS, Reply::json(200, runs));

    let mut args = repo();
    args["per_page"] = json!(2);
    args["status"] = json!("in_progress");
    args["branch"] = json!("feature/a&b#c");
    let listed = world.call("github.get_recent_ci_runs", args).await.expect("listed");

    assert_eq!(
        listed["runs"],
        json!([
            {"id": 30_433_642, "run_number": 562, "name": "Build", "head_branch": "Feature/ABC",
             "head_sha": "acb5820ced9479c074f688cc328bf03f341a511d", "event": "push", "status": "completed",
             "conclusion": "success", "html_url": "https://github.com/Octo-Org/Hello.World/actions/runs/30433642",
             "created_at": "2026-01-22T19:33:08Z", "updated_at": "2026-01-22T19:39:08Z", "actor": "OctoCat"},
            {"id": 7}])
    );
    let list: CiRunList = typed(listed);
    assert_eq!((list.total_count, list.extent.truncated, list.extent.omitted), (40, true, Some(38)));
    let query = "per_page=2&exclude_pull_requests=true&status=in_progress&branch=feature%2Fa%26b%23c";
    assert_eq!(world.asked(), [format!("{RUNS}?{query}")]);
}

// proves: T-06
#[tokio::test]
async fn without_arguments_thirty_runs_are_asked_for_and_all_of_them_are_all() {
    let world = World::new().await;
    world.server.on(RUNS, Reply::json(200, runs_body()));
    let list: CiRunList = typed(world.call("github.get_recent_ci_runs", repo()).await.expect("listed"));
    assert!(!list.extent.truncated);
    assert_eq!(world.asked(), [format!("{RUNS}?per_page=30&exclude_pull_requests=true")]);
}

// proves: T-07, REQ-022
#[tokio::test]
async fn one_run_is_asked_for_by_its_number_below_any_base() {
    let world = World::below("/api/v3").await;
    let path = format!("/api/v3{RUNS}/30433642");
    world.server.on(&path, Reply::json(200, run_body()));
    let mut args = repo();
    args["run_id"] = json!(30_433_642);
    let run: CiRun = typed(world.call("github.get_workflow_run", args).await.expect("a run"));
    assert_eq!(run.conclusion.as_deref(), Some("success"));
    assert_eq!(world.asked(), [format!("{path}?exclude_pull_requests=true")]);
}

// proves: C-F02, C-F04, C-Q22
#[test]
fn no_argument_makes_another_path_on_the_wire() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let world = runtime.block_on(World::new());
    let text = || {
        prop_oneof![".{0,12}", "[A-Za-z0-9._-]{1,12}", Just("../..".to_owned()), Just("%2e%2e".to_owned())]
    };
    let cases = ProptestConfig { cases: 48, ..ProptestConfig::default() };
    proptest!(cases, |(owner in text(), name in text(), branch in text(), id in any::<u64>())| {
        runtime.block_on(async {
            let mut runs = json!({"owner": owner, "repo": name, "branch": branch});
            let _ = world.call("github.get_recent_ci_runs", runs.clone()).await;
            runs.as_object_mut().expect("an object").remove("branch");
            runs["run_id"] = json!(id);
            let _ = world.call("github.get_workflow_run", runs).await;
        });
    });
    for asked in world.asked() {
        let (path, _) = asked.split_once('?').expect("a query");
        let segments: Vec<_> = path.split('/').collect();
        assert!(matches!(segments.len(), 6 | 7), "{path}");
        assert_eq!([segments[1], segments[4], segments[5]], ["repos", "actions", "runs"], "{path}");
        assert!(
            segments.iter().skip(1).all(|part| !part.is_empty() && *part != "." && *part != ".."),
            "{path}"
        );
    }
}

// proves: GH-02, D-006
#[tokio::test]
async fn a_token_of_another_kind_is_not_sent() {
    let world = World::new().await;
    for token in ["ghp_0123456789abcdefghij0123456789abcdef", "", "0123456789abcdef0123456789abcdef01234567"]
    {
        let refused = world.call_with(token, "github.list_repos", json!({})).await;
        assert_eq!(refused, Err(AdapterError::UpstreamAuth), "{token}");
    }
    assert_eq!(world.server.accepted(), 0);
}
