//! The audit log over HTTP.

use std::io::Cursor;

use audit::export::verify_export;
use identity::Role;
use mcp_core::audit::EventType;
use serde_json::json;

use crate::world::{TOOL, World, eventually};

// proves: AU-05, AU-08, X2-04
#[tokio::test]
async fn an_admin_reads_verifies_and_exports_what_happened() {
    let world = World::new().await;
    let (admin, operator) = (world.client(Role::Admin).await, world.client(Role::Operator).await);
    let called = operator.invoke(TOOL, json!({})).await;
    let receipt = called.header("x-audit-receipt").to_owned();
    let (seq, hash) = receipt.split_once(';').expect("a receipt");

    let newest = admin.get("/api/audit?limit=2&type=adapter.capability_invoked").await.json();
    let events = newest["events"].as_array().expect("events");
    assert_eq!(events[0]["seq"].to_string(), seq);
    assert_eq!(events[0]["hash"], hash);
    assert_eq!(events[0]["body"]["phase"], "finished");
    assert_eq!(events[1]["body"]["phase"], "started");
    assert!(events[1]["body"]["instance"].is_string());

    let verdict = admin.post("/api/audit/verify", json!({})).await.json();
    assert_eq!(verdict["verified"], true);
    let export = admin.get("/api/audit/export").await;
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    let verdicts = verify_export(Cursor::new(export.text)).expect("an export");
    assert!(verdicts.iter().all(|(tenant, verdict)| *tenant == world.tenant && verdict.is_intact()));
    assert_eq!(admin.get("/api/audit?type=nonsense").await.told(), "400 invalid_request");
}

// proves: C-B01, C-Q15, AU-10
#[tokio::test]
async fn state_changes_reach_the_chain_and_stay_in_it() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    admin.post("/api/keys", json!({"name": "ci", "role": "viewer"})).await;
    admin.post("/api/targets/enrollments", json!({"name": "db-1"})).await;
    let policy = json!({"disabled": ["github__list_repos"]}).to_string();
    let put = admin.send("PUT", "/api/tools/policy", Some(policy), &[]).await;
    assert_eq!(put.json(), json!({"disabled": ["github.list_repos"]}));

    let wanted = [
        EventType::TenantCreated,
        EventType::KeyCreated,
        EventType::EnrolmentCreated,
        EventType::ToolPolicyChanged,
    ];
    eventually(async || {
        let events = admin.get("/api/audit").await.text;
        wanted.iter().all(|event| events.contains(event.as_str()))
    })
    .await;
    let other = world.database.create_tenant("globex").await;
    let stranger = world.client_of(other, Role::Admin).await;
    let theirs = stranger.get("/api/audit").await.text;
    assert!(!theirs.contains("db-1") && !theirs.contains("tool_policy"));
}
