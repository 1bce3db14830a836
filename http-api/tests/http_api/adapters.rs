//! Adapters over HTTP: nothing is stored unless the check passes, and a credential never comes out.

use std::sync::atomic::Ordering;

use identity::Role;
use mcp_core::check::{CheckReport, CheckStep, StepName};
use mcp_core::error::ErrorCode;
use serde_json::{Value, json};

use crate::world::{Client, World, good_report};

const CANARY: &str = "canary-credential-4711";

fn wanted(name: &str) -> Value {
    json!({"type": "gitea", "name": name, "base_url": "https://git.example", "credential": CANARY})
}

fn failing() -> CheckReport {
    let step = CheckStep::fail(StepName::Tls, "the certificate is not trusted", "confirm its fingerprint");
    let fingerprint = Some("ab".repeat(32));
    CheckReport {
        steps: vec![step],
        code: Some(ErrorCode::TlsUntrusted),
        fingerprint,
        ..CheckReport::default()
    }
}

async fn rows(world: &World) -> i64 {
    let admin = world.database.admin_client().await;
    admin.query_one("select count(*) from coreci.mcp_adapters", &[]).await.expect("a count").get(0)
}

async fn created(admin: &Client, name: &str) -> String {
    let answer = admin.post("/api/mcp/adapter", wanted(name)).await;
    assert_eq!(answer.told(), "201", "{}", answer.text);
    answer.json()["id"].as_str().expect("an id").to_owned()
}

// proves: AD-01, AD-02, AD-07, RT-05, RT-06, RT-09, AU-06, AU-07, C-J11
#[tokio::test]
async fn an_adapter_is_configured_shown_checked_and_removed() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let id = created(&admin, "forge-1").await;
    let shown = admin.get(&format!("/api/mcp/adapter/{id}")).await;
    assert_eq!(shown.json()["status"], "ok");
    assert_eq!(shown.json()["credential"], json!({"set": true}));
    assert!(!admin.get("/api/mcp/adapter").await.text.contains(CANARY) && !shown.text.contains(CANARY));
    let targets = admin.get("/api/targets").await.json();
    assert_eq!(targets["targets"][0]["kind"], "gitea", "every adapter is a target");
    assert_eq!(targets["targets"][0]["status"], "green", "as well as its last check");
    let revoked = admin.post(&format!("/api/targets/{id}/revoke"), json!({})).await;
    assert_eq!(revoked.told(), "409 conflict", "hosts are revoked, adapters removed");

    *world.adapter.report.lock().expect("lock") = failing();
    let tested = admin.post(&format!("/api/mcp/adapter/{id}/test"), json!({})).await.json();
    assert_eq!(tested["ok"], false);
    assert_eq!(admin.get("/api/targets").await.json()["targets"][0]["status"], "red");
    assert_eq!(admin.get(&format!("/api/mcp/adapter/{id}")).await.json()["status"], "failed");

    assert_eq!(admin.send("DELETE", &format!("/api/mcp/adapter/{id}"), None, &[]).await.told(), "204");
    assert_eq!(admin.get(&format!("/api/mcp/adapter/{id}")).await.told(), "404 not_found");
    assert_eq!(rows(&world).await, 0);
    crate::world::eventually(async || {
        let events = admin.get("/api/audit").await.text;
        let wanted =
            ["adapter.configured", "adapter.removed", "test_connection.succeeded", "test_connection.failed"];
        assert!(!events.contains(CANARY));
        wanted.iter().all(|event| events.contains(event))
    })
    .await;
}

// proves: AD-02, REQ-025, C-I01
#[tokio::test]
async fn a_failed_check_is_422_with_its_steps_and_nothing_is_stored() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    *world.adapter.report.lock().expect("lock") = failing();
    let refused = admin.post("/api/mcp/adapter", wanted("forge-1")).await;
    assert_eq!(refused.told(), "422 tls_untrusted");
    let body = refused.json();
    assert_eq!(body["steps"][0]["step"], "tls");
    assert_eq!(body["fingerprint"], "ab".repeat(32));
    assert_eq!(rows(&world).await, 0);

    let mut unverified = wanted("forge-1");
    unverified["save_unverified"] = json!(true);
    let saved = admin.post("/api/mcp/adapter", unverified).await;
    assert_eq!((saved.told().as_str(), &saved.json()["status"]), ("201", &json!("never_verified")));
}

#[tokio::test]
async fn what_cannot_make_an_adapter_is_refused_before_anything_is_dialled() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let with = |field: &str, value: Value| {
        let mut body = wanted("forge-1");
        body[field] = value;
        body
    };
    let cases = [
        (with("base_url", json!("https://metadata.example")), "422 egress_denied"),
        (with("credential", json!("malformed")), "422 config_refused"),
        (with("name", json!("Not A Name")), "400 invalid_request"),
        (with("type", json!("ssh_key")), "400 invalid_request"),
        (with("tls", json!({"mode": "none"})), "400 invalid_request"),
        (with("command", json!("id")), "400 invalid_request"),
    ];
    for (body, expected) in cases {
        assert_eq!(admin.post("/api/mcp/adapter", body.clone()).await.told(), expected, "{body}");
    }
    assert_eq!(rows(&world).await, 0);
    created(&admin, "forge-1").await;
    assert_eq!(admin.post("/api/mcp/adapter", wanted("forge-1")).await.told(), "409 conflict");
}

// proves: C-H26
#[tokio::test]
async fn a_secret_is_never_sent_to_a_host_it_was_not_entered_for() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let id = created(&admin, "forge-1").await;
    let path = format!("/api/mcp/adapter/{id}");
    let checks = || world.adapter.checked.load(Ordering::SeqCst);
    let patch = async |body: Value| admin.send("PATCH", &path, Some(body.to_string()), &[]).await;

    let before = checks();
    let moved = patch(json!({"base_url": "https://evil.example"})).await;
    assert_eq!(moved.told(), "422 config_refused");
    assert_eq!(moved.json()["field"], "credential");
    assert_eq!(checks(), before, "nothing was dialled");
    assert_eq!(patch(json!({"options": {"x": 1}})).await.told(), "200");
    let again = json!({"base_url": "https://other.example", "credential": "another"});
    assert_eq!(patch(again).await.told(), "200");
    *world.adapter.report.lock().expect("lock") = failing();
    assert_eq!(patch(json!({"options": {}})).await.told(), "422 tls_untrusted");
    *world.adapter.report.lock().expect("lock") = good_report();
    assert_eq!(admin.get(&path).await.json()["baseUrl"], "https://other.example");
}

// proves: C-B01, C-B11
#[tokio::test]
async fn another_tenants_adapter_is_not_there() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let id = created(&admin, "forge-1").await;
    let other = world.database.create_tenant("globex").await;
    let stranger = world.client_of(other, Role::Admin).await;
    let nothing = "00000000-0000-0000-0000-000000000001";
    for (method, tail) in [("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/test")] {
        let ask = async |id: &str| {
            let path = format!("/api/mcp/adapter/{id}{tail}");
            stranger.send(method, &path, Some("{}".to_owned()), &[]).await.without_request_id()
        };
        assert_eq!(ask(&id).await, ask(nothing).await, "{method}");
    }
    assert_eq!(stranger.get("/api/mcp/adapter").await.json()["adapters"], json!([]));
    created(&stranger, "forge-1").await;
}
