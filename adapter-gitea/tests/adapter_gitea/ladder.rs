//! `gitea.get_recent_ci_runs` on servers of several kinds.

use egress::testing::Reply;
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::tool::gitea::CiRunList;
use serde_json::{Value, json};

use crate::world::{REPO, RUNS, TASKS, World, repo, repo_body, runs_body, tasks_body};

async fn listed(world: &World, limit: Option<u32>) -> CiRunList {
    let mut args = repo();
    if let Some(limit) = limit {
        args["limit"] = json!(limit);
    }
    let result = world.call("gitea.get_recent_ci_runs", args).await.expect("listed");
    serde_json::from_value(result).expect("the tool's own result type")
}

async fn refused(world: &World) -> AdapterError {
    world.refused("gitea.get_recent_ci_runs", repo()).await
}

fn repository(has_actions: Value) -> Reply {
    let mut repository = repo_body();
    repository["has_actions"] = has_actions;
    Reply::json(200, repository)
}

fn closed() -> Reply {
    let message = "user should have specific read permission or be a repo admin or a site admin";
    Reply::json(403, json!({"message": message, "url": "https://git.example/api/swagger"}))
}

fn task(id: u64, run_number: u64, name: &str, status: &str) -> Value {
    json!({"id": id, "run_number": run_number, "name": name, "status": status, "workflow_id": "ci.yml",
        "head_branch": "main", "head_sha": "d64e081bf6", "event": "push", "display_title": "Fix",
        "url": format!("https://git.example/Octo/Hello.World/actions/runs/{run_number}"),
        "created_at": "2026-11-30T10:00:00Z", "updated_at": "2026-11-30T10:01:00Z",
        "run_started_at": "2026-11-30T10:00:00Z"})
}

// proves: T-09, GT-06, GT-07, REQ-023, Q6, T-16, AD-08
#[tokio::test]
async fn gitea_1_25_answers_runs() {
    let world = World::new().await;
    let mut runs = runs_body();
    // What no description has, and still is no reason to fail.
    runs["workflow_runs"][0]["id"] = json!("42");
    runs["workflow_runs"][0]["actor"] = Value::Null;
    runs["workflow_runs"][1]["head_repository"] = Value::Null;
    world.server.on(RUNS, Reply::json(200, runs));

    let list = world.call("gitea.get_recent_ci_runs", repo()).await.expect("listed");

    assert_eq!(
        list,
        json!({"total_count": 2, "source": "runs", "truncated": false, "runs": [
            {"id": 42, "run_number": 18, "status": "queued"},
            {"id": 41, "run_number": 17, "name": "ci.yml", "head_branch": "Main", "head_sha": "d64e081bf6",
             "event": "push", "status": "completed", "conclusion": "success",
             "html_url": "https://git.example/Octo/Hello.World/actions/runs/17",
             "created_at": "2026-11-30T10:00:00+01:00", "updated_at": "2026-11-30T10:03:00+01:00", "actor": "OctoCat"}]})
    );
    assert_eq!(world.asked(), [format!("{RUNS}?limit=30")]);
}

// proves: GT-06, REQ-023, Q6
#[tokio::test]
async fn forgejo_s_form_of_a_run_is_told_by_its_fields() {
    let world = World::new().await;
    let run = |id: u64, status: &str| {
        json!({"id": id, "index_in_repo": id - 24, "title": "Fix", "prettyref": "main", "commit_sha": "d64e081bf6",
            "event": "push", "trigger_event": "push", "status": status, "started": "2026-11-30T10:00:00Z",
            "stopped": "1970-01-01T00:00:00Z", "created": "2026-11-30T09:59:00Z", "updated": "2026-11-30T10:01:00Z",
            "html_url": "https://forgejo.example/x/actions/runs/17", "workflow_id": "ci.yml",
            "trigger_user": {"login": "OctoCat"}, "need_approval": false})
    };
    let rows = ["failure", "running", "waiting", "blocked", "unknown"];
    let rows: Vec<_> = (40..).zip(rows).map(|(id, status)| run(id, status)).collect();
    world.server.on(RUNS, Reply::json(200, json!({"total_count": 5, "workflow_runs": rows})));

    let list = listed(&world, None).await;

    let states: Vec<_> = list
        .runs
        .iter()
        .map(|run| (run.status.as_deref().unwrap_or(""), run.conclusion.as_deref()))
        .collect();
    let wanted = [
        ("completed", Some("failure")),
        ("in_progress", None),
        ("queued", None),
        ("waiting", None),
        ("unknown", None),
    ];
    assert_eq!(states, wanted);
    let first = serde_json::to_value(&list.runs[0]).expect("json");
    assert_eq!(
        first,
        json!({"id": 40, "run_number": 16, "name": "ci.yml", "head_branch": "main", "head_sha": "d64e081bf6",
            "event": "push", "status": "completed", "conclusion": "failure", "actor": "OctoCat",
            "html_url": "https://forgejo.example/x/actions/runs/17", "created_at": "2026-11-30T09:59:00Z",
            "updated_at": "2026-11-30T10:01:00Z"})
    );
}

// proves: GT-06, REQ-023, Q6
#[tokio::test]
async fn gitea_1_23_answers_tasks_of_which_runs_are_made() {
    let world = World::new().await;
    world.server.on(TASKS, Reply::json(200, tasks_body()).header("x-total-count", "3"));

    let list = listed(&world, None).await;

    assert_eq!((list.source.as_str(), list.total_count, list.extent.truncated), ("tasks", Some(2), false));
    let rows: Vec<_> = list
        .runs
        .iter()
        .map(|run| (run.id, run.run_number, run.status.clone(), run.conclusion.clone()))
        .collect();
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows,
        [(None, Some(18), said("in_progress"), None), (None, Some(17), said("completed"), said("failure"))]
    );
    assert_eq!(world.asked(), [format!("{RUNS}?limit=30"), format!("{TASKS}?limit=50")]);
}

// proves: GT-06, GT-07
#[tokio::test]
async fn a_run_whose_jobs_go_on_in_the_next_page_is_read_whole() {
    let world = World::new().await;
    // Three jobs a run, two tasks a page: newest first.
    world.server.on_fn(TASKS, |seen| {
        let page = seen.query.split('&').find_map(|part| part.strip_prefix("page=")).unwrap_or("1");
        let first = (page.parse::<u64>().expect("a number") - 1) * 2;
        let row = |nth: u64| {
            let status = if nth % 3 == 2 { "failure" } else { "success" };
            task(1000 - nth, 300 - nth / 3, ["a", "b", "c"][(nth % 3) as usize], status)
        };
        let rows = [row(first), row(first + 1)];
        Reply::json(200, json!({"total_count": 900, "workflow_runs": rows})).header("x-total-count", "900")
    });
    let list = listed(&world, Some(2)).await;
    assert_eq!(list.runs.iter().filter_map(|run| run.run_number).collect::<Vec<_>>(), [300, 299]);
    assert!(list.runs.iter().all(|run| run.conclusion.as_deref() == Some("failure")));
    assert_eq!((list.total_count, list.extent.truncated, list.extent.omitted), (None, true, None));
    assert_eq!(world.asked().len(), 5);

    // Six pages hold four whole runs; that is the cap, and the list says that there is more.
    let capped = listed(&world, Some(50)).await;
    assert_eq!((capped.runs.len(), capped.extent.truncated), (3, true));
    assert_eq!(world.asked().len(), 5 + 7);
}

// proves: GT-06, GT-07
#[tokio::test]
async fn pages_of_runs_that_are_clamped_are_put_together_without_doubles() {
    let world = World::new().await;
    world.server.on_fn(RUNS, |seen| {
        let page = seen.query.split('&').find_map(|part| part.strip_prefix("page=")).unwrap_or("1");
        let page: u64 = page.parse().expect("a number");
        // A run started between the pages, so that the last row of one is the first of the next.
        let rows: Vec<_> = (0..3).map(|nth| json!({"id": 900 - (page - 1) * 2 - nth})).collect();
        Reply::json(200, json!({"total_count": 700, "workflow_runs": rows}))
    });
    let list = listed(&world, Some(5)).await;
    assert_eq!(list.runs.iter().filter_map(|run| run.id).collect::<Vec<_>>(), [900, 899, 898, 897, 896]);
    assert_eq!((list.total_count, list.extent.omitted), (Some(700), Some(695)));
}

// proves: GT-06, REQ-023, Q6
#[tokio::test]
async fn old_server_missing_repository_and_switched_off_actions_are_three_answers() {
    let old = World::new().await;
    old.server.on(REPO, repository(json!(true)));
    let older = World::new().await;
    older.server.on(REPO, repository(Value::Null));
    for world in [&old, &older] {
        let error = refused(world).await;
        assert_eq!(error.to_string(), "this server has no run API (needs Gitea 1.23+)");
        assert_eq!(world.asked(), [format!("{RUNS}?limit=30"), format!("{TASKS}?limit=50"), REPO.to_owned()]);
    }

    let missing = World::new().await;
    let error = refused(&missing).await;
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert_eq!(error.to_string(), "Octo/Hello.World is missing or not visible to the token's user");

    let off = World::new().await;
    off.server.on(RUNS, closed());
    off.server.on(REPO, repository(json!(false)));
    assert_eq!(refused(&off).await.to_string(), "Actions are switched off in Octo/Hello.World");

    let off_below = World::new().await;
    off_below.server.on(TASKS, closed());
    off_below.server.on(REPO, repository(json!(false)));
    assert_eq!(refused(&off_below).await.to_string(), "Actions are switched off in Octo/Hello.World");
}

// proves: GT-06, C-N14
#[tokio::test]
async fn a_403_that_is_not_about_actions_names_what_is_missing() {
    let scope = World::new().await;
    let message = "token does not have at least one of required scope(s): [read:repository]";
    scope.server.on(RUNS, Reply::json(403, json!({"message": message})));
    let missing = AdapterError::InsufficientScope { permission: "read:repository".to_owned() };
    assert_eq!(refused(&scope).await, missing);
    assert_eq!(scope.asked().len(), 1);

    let access = World::new().await;
    access.server.on(RUNS, closed());
    access.server.on(REPO, repository(json!(true)));
    let error = refused(&access).await;
    assert_eq!(error.code(), ErrorCode::InsufficientScope);
    assert!(error.to_string().contains("read access to Actions of Octo/Hello.World"), "{error}");
}
