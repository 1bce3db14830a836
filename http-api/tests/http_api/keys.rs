//! API keys over HTTP.

use identity::Role;
use serde_json::json;

use crate::world::World;

// proves: C-J11, C-A17
#[tokio::test]
async fn a_key_is_shown_once_works_at_once_and_stops_at_once() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let made = admin.post("/api/keys", json!({"name": "ci", "role": "operator"})).await;
    assert_eq!(made.told(), "201");
    let made = made.json();
    let key = world.with_key(made["key"].as_str().expect("a key"));
    assert_eq!(key.get("/api/me").await.json()["role"], "operator");
    let listed = admin.get("/api/keys").await;
    assert!(!listed.text.contains("cck_"));
    assert!(listed.text.contains(made["id"].as_str().expect("an id")));

    let path = format!("/api/keys/{}", made["id"].as_str().expect("an id"));
    assert_eq!(admin.send("DELETE", &path, None, &[]).await.told(), "204");
    assert_eq!(key.get("/api/me").await.told(), "401 unauthenticated");
}

#[tokio::test]
async fn bad_requests_for_keys_are_told_what_to_do() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let cases = [
        (json!({"name": "x", "role": "root"}), "400 invalid_request"),
        (json!({"name": "", "role": "viewer"}), "400 invalid_request"),
        (json!({"name": "a\u{0}b", "role": "viewer"}), "400 invalid_request"),
        (json!({"name": "x".repeat(201), "role": "viewer"}), "400 invalid_request"),
        (json!({"name": "x", "role": "viewer", "expiresAt": "2020-01-01T00:00:00Z"}), "400 invalid_request"),
        (json!({"name": "x", "role": "viewer", "expiresAt": "tomorrow"}), "400 invalid_request"),
        (json!({"name": "x", "role": "viewer", "tools": ["proxmox.delete_vm"]}), "400 invalid_request"),
        (json!({"name": "x", "role": "viewer", "tenantId": "y"}), "400 invalid_request"),
        (json!({"name": "ok", "role": "viewer"}), "201"),
        (json!({"name": "ok", "role": "viewer"}), "409 conflict"),
    ];
    for (body, expected) in cases {
        assert_eq!(admin.post("/api/keys", body.clone()).await.told(), expected, "{body}");
    }
    let path = "/api/keys/00000000-0000-0000-0000-000000000001";
    assert_eq!(admin.send("DELETE", path, None, &[]).await.told(), "404 not_found");
    assert_eq!(admin.send("DELETE", "/api/keys/x", None, &[]).await.told(), "404 not_found");
}

// proves: C-D03
#[tokio::test]
async fn the_last_admin_key_cannot_be_revoked() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let id = admin.get("/api/me").await.json()["keyId"].as_str().expect("an id").to_owned();
    let answer = admin.send("DELETE", &format!("/api/keys/{id}"), None, &[]).await;
    assert_eq!(answer.told(), "409 last_admin");
}

#[tokio::test]
async fn a_creating_request_sent_twice_is_done_once() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let body = json!({"name": "ci", "role": "viewer"}).to_string();
    let send = |body: &str| {
        let (admin, body) = (admin.clone(), body.to_owned());
        async move { admin.send("POST", "/api/keys", Some(body), &[("idempotency-key", "k-1")]).await }
    };
    let (one, two) = tokio::join!(send(&body), send(&body));
    assert_eq!((one.told(), two.told()), ("201".to_owned(), "201".to_owned()));
    let (first, replay) = if one.header("idempotent-replayed").is_empty() { (one, two) } else { (two, one) };
    assert_eq!(replay.header("idempotent-replayed"), "true");
    assert_eq!(replay.json()["id"], first.json()["id"]);
    assert!(first.json()["key"].is_string() && replay.json()["key"].is_null());

    let other = json!({"name": "other", "role": "viewer"}).to_string();
    assert_eq!(send(&other).await.told(), "409 conflict");
}

#[tokio::test]
async fn pages_are_walked_by_a_cursor_that_only_this_list_takes() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    for n in 0..4 {
        let made = admin.post("/api/keys", json!({"name": format!("key-{n}"), "role": "viewer"})).await;
        assert_eq!(made.told(), "201");
    }
    let mut names = Vec::new();
    let mut path = "/api/keys?limit=2".to_owned();
    loop {
        let page = admin.get(&path).await.json();
        names.extend(page["keys"].as_array().expect("keys").iter().map(|key| key["name"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        assert_eq!(admin.get(&format!("/api/targets?cursor={cursor}")).await.told(), "400 invalid_request");
        path = format!("/api/keys?limit=2&cursor={cursor}");
    }
    assert_eq!(names.len(), 5);
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=x", "page=2"] {
        assert_eq!(admin.get(&format!("/api/keys?{bad}")).await.told(), "400 invalid_request", "{bad}");
    }
}
