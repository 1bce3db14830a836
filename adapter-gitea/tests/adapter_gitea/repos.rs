//! `gitea.list_repos`.

use egress::testing::{Reply, Seen};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::tool::gitea::RepoList;
use serde_json::{Value, json};

use crate::world::{TOKEN, USER_REPOS, World, repos_body};

fn row(id: u32) -> Value {
    json!({"id": id, "name": format!("r{id}"), "full_name": format!("Octo/r{id}"), "private": false})
}

/// A server that clamps its pages at 20 rows, of which it has `rows`.
fn clamped(rows: u32) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
    move |seen| {
        let page = seen.query.split('&').find_map(|part| part.strip_prefix("page=")).unwrap_or("1");
        let first = (page.parse::<u32>().expect("a number") - 1) * 20;
        let rows: Vec<_> = (first..rows.min(first + 20)).map(row).collect();
        Reply::json(200, json!(rows)).header("x-total-count", "900")
    }
}

// proves: T-08, T-13, T-16, GT-01, REQ-023, REQ-027, AD-08
#[tokio::test]
async fn repositories_are_small_rows_in_their_own_casing() {
    let world = World::below("/git").await;
    let mut full = repos_body();
    full[1]["id"] = json!("6");
    world.server.on("/git/api/v1/user/repos?limit=50", Reply::json(200, full).header("x-total-count", "2"));

    let listed = world.call("gitea.list_repos", json!({})).await.expect("listed");

    assert_eq!(
        listed,
        json!({"truncated": false, "repos": [
            {"id": 5, "name": "Hello.World", "full_name": "Octo/Hello.World", "owner": "Octo", "private": true,
             "description": "Says hello", "html_url": "https://git.example/Octo/Hello.World", "default_branch": "main",
             "updated_at": "2026-11-30T10:00:00+01:00"},
            {"id": 6, "name": "new", "full_name": "Octo/new", "owner": "Octo", "private": false,
             "html_url": "https://git.example/Octo/new"}]})
    );
    assert_eq!(world.asked(), ["/git/api/v1/user/repos?limit=50"]);
    let seen = world.server.requests().remove(0);
    assert_eq!(seen.headers["authorization"], format!("token {TOKEN}").as_str());
}

// proves: T-08, GT-07
#[tokio::test]
async fn a_server_that_clamps_its_pages_is_asked_for_more_of_them() {
    let world = World::new().await;
    world.server.on_fn(USER_REPOS, clamped(1000));
    let list: RepoList =
        serde_json::from_value(world.call("gitea.list_repos", json!({})).await.expect("listed"))
            .expect("a list");
    assert_eq!(list.repos.len(), 50);
    assert_eq!((list.extent.truncated, list.extent.omitted), (true, Some(850)));
    assert_eq!(world.asked().len(), 3);
}

#[tokio::test]
async fn an_empty_page_is_the_end_whatever_the_count_says() {
    let world = World::new().await;
    world.server.on_fn(USER_REPOS, clamped(25));
    let list: RepoList =
        serde_json::from_value(world.call("gitea.list_repos", json!({})).await.expect("listed"))
            .expect("a list");
    assert_eq!(list.repos.len(), 25);
    assert!(!list.extent.truncated);
    assert_eq!(world.asked().len(), 3);
}

#[tokio::test]
async fn a_server_that_repeats_its_page_is_not_asked_for_ever() {
    let world = World::new().await;
    let next = "<http://other.example/api?page=2>; rel=\"next\"";
    world.server.on(USER_REPOS, Reply::json(200, json!([row(1)])).header("link", next));
    let listed = world.call("gitea.list_repos", json!({})).await.expect("listed");
    assert_eq!(listed["repos"].as_array().map(Vec::len), Some(1));
    assert_eq!(world.asked().len(), 2);
}

// proves: GT-04, C-N14
#[tokio::test]
async fn a_missing_scope_is_named() {
    let world = World::new().await;
    let message = "token does not have at least one of required scope(s): [read:user]";
    world.server.on(USER_REPOS, Reply::json(403, json!({"message": message, "url": "x"})));
    let scope = AdapterError::InsufficientScope { permission: "read:user".to_owned() };
    assert_eq!(world.refused("gitea.list_repos", json!({})).await, scope);

    let unnamed = World::new().await;
    unnamed.server.on(USER_REPOS, Reply::json(403, json!({"message": "canary"})));
    let error = unnamed.refused("gitea.list_repos", json!({})).await;
    assert_eq!(error.code(), ErrorCode::InsufficientScope);
    assert!(error.to_string().contains("read:user, read:repository"), "{error}");
}
