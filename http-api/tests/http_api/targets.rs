//! Enrolment and revocation over HTTP.

use identity::Role;
use serde_json::json;

use crate::world::World;

fn agent(token: &str) -> serde_json::Value {
    json!({
        "token": token, "publicKey": "ab".repeat(32), "hostname": "db-1", "os": "Debian", "version": "0.1.0",
    })
}

// proves: C-M01, H-17
#[tokio::test]
async fn a_token_enrols_one_host_once() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let made = admin.post("/api/targets/enrollments", json!({"name": "db-1"})).await;
    assert_eq!(made.told(), "201");
    let made = made.json();
    let token = made["token"].as_str().expect("a token");
    assert!(made["command"].as_str().expect("a command").contains("--url https://coreci.example"));

    let anyone = world.anonymous();
    let (one, two) = tokio::join!(
        anyone.post("/api/relay/enroll", agent(token)),
        anyone.post("/api/relay/enroll", agent(token))
    );
    let mut told = [one.told(), two.told()];
    told.sort();
    assert_eq!(told, ["201", "401 unauthenticated"]);
    let targets = admin.get("/api/targets").await.json();
    assert_eq!(targets["targets"][0]["name"], "db-1");
    assert_eq!(targets["targets"][0]["status"], "yellow", "it was just heard of, but is not connected");
    assert_eq!(admin.post("/api/targets/enrollments", json!({"name": "db-1"})).await.told(), "409 conflict");
}

#[tokio::test]
async fn bad_enrolments_are_told_what_to_do() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    for name in ["", "UPPER", "a b", "-x", "../x", &"x".repeat(64), "a\u{0}"] {
        let answer = admin.post("/api/targets/enrollments", json!({"name": name})).await;
        assert_eq!(answer.told(), "400 invalid_request", "{name:?}");
    }
    let anyone = world.anonymous();
    assert_eq!(anyone.post("/api/relay/enroll", agent("cce_nonsense")).await.told(), "401 unauthenticated");
    let mut short = agent("cce_nonsense");
    short["publicKey"] = json!("ab");
    assert_eq!(anyone.post("/api/relay/enroll", short).await.told(), "400 invalid_request");
    assert_eq!(anyone.get("/api/relay/ws").await.told(), "400 invalid_request");
}

// proves: C-A09
#[tokio::test]
async fn a_browser_cannot_open_the_agents_socket() {
    let world = World::new().await;
    // Not even a page of ours: no browser has business there.
    let headers = [
        ("origin", "https://coreci.example"),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    assert_eq!(world.anonymous().send("GET", "/api/relay/ws", None, &headers).await.told(), "403 forbidden");
}

// proves: C-B01, H-13
#[tokio::test]
async fn another_tenants_target_cannot_be_revoked() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let token = admin.post("/api/targets/enrollments", json!({"name": "db-1"})).await.json();
    let token = token["token"].as_str().expect("a token");
    let enrolled = world.anonymous().post("/api/relay/enroll", agent(token)).await.json();
    let target = enrolled["targetId"].as_str().expect("an id");

    let other = world.database.create_tenant("globex").await;
    let stranger = world.client_of(other, Role::Admin).await;
    let theirs = stranger.post(&format!("/api/targets/{target}/revoke"), json!({})).await;
    let missing = stranger.post("/api/targets/00000000-0000-0000-0000-000000000001/revoke", json!({})).await;
    assert_eq!(missing.told(), "404 target_not_found");
    assert_eq!(theirs.without_request_id(), missing.without_request_id());
    assert_eq!(admin.post(&format!("/api/targets/{target}/revoke"), json!({})).await.told(), "204");
    assert_eq!(admin.get("/api/targets").await.json()["targets"], json!([]));
}
