//! `invoke` and the stream of a call.

use std::sync::atomic::Ordering;
use std::time::Duration;

use identity::Role;
use serde_json::{Value, json};

use crate::world::{Answer, Behaviour, Client, TOOL, World, eventually};

async fn start(client: &Client) -> String {
    let accepted =
        client.post("/api/mcp/invoke", json!({"tool": TOOL, "args": {"owner": "o", "repo": "r"}})).await;
    assert_eq!(accepted.told(), "202");
    assert!(accepted.header("x-audit-receipt").contains(';'));
    let body = accepted.json();
    let call = body["correlationId"].as_str().expect("an id").to_owned();
    assert_eq!(body["streamUrl"], format!("/api/mcp/stream/{call}"));
    call
}

/// The events of a stream: id, name, data.
fn events(answer: &Answer) -> Vec<(String, String, Value)> {
    let blocks = answer.text.split("\n\n").filter(|block| block.contains("event:"));
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.to_owned()
    };
    let event = |block| {
        let data = serde_json::from_str(&field(block, "data: ")).expect("JSON");
        (field(block, "id: "), field(block, "event: "), data)
    };
    blocks.map(event).collect()
}

// proves: RT-02, RT-03, RT-04, E-01, E-02, E-03, E-04, E-15, REQ-017
#[tokio::test]
async fn a_call_is_accepted_and_its_stream_replays_it() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let call = start(&operator).await;
    let path = format!("/api/mcp/stream/{call}");

    let stream = operator.get(&path).await;
    assert_eq!(stream.header("content-type"), "text/event-stream");
    assert_eq!(stream.header("cache-control"), "no-cache");
    assert_eq!(stream.header("x-accel-buffering"), "no");
    let seen = events(&stream);
    let ids: Vec<_> = seen.iter().map(|(id, name, _)| (id.clone(), name.as_str())).collect();
    assert_eq!(ids, [(format!("{call}-0"), "tool_result"), (format!("{call}-1"), "done")]);
    assert_eq!(seen[0].2["structuredContent"], json!({"repos": [], "truncated": false}));
    assert_eq!(seen[0].2["isError"], false);
    assert!(seen[1].2["receipt"].as_str().expect("a receipt").contains(';'));

    // Opened again, whole and from where it was left.
    assert_eq!(events(&operator.get(&path).await).len(), 2);
    let last = format!("{call}-0");
    let rest = operator.send("GET", &path, None, &[("last-event-id", &last)]).await;
    assert_eq!(events(&rest).len(), 1);
    assert_eq!(events(&rest)[0].1, "done");
}

// proves: M-15, E-13
#[tokio::test]
async fn a_failed_call_ends_with_an_error_that_carries_its_status() {
    let world = World::new().await;
    world.behave(Behaviour::Fail(mcp_core::error::AdapterError::Malformed));
    let operator = world.client(Role::Operator).await;
    let call = start(&operator).await;
    let seen = events(&operator.get(&format!("/api/mcp/stream/{call}")).await);
    let (_, name, data) = &seen[0];
    assert_eq!(name, "error");
    assert_eq!(data["status"], 502);
    assert_eq!(data["error"], "upstream_malformed");
    assert_eq!(data["isError"], true);
    assert!(data["content"][0]["text"].is_string());
}

// proves: E-12, E-14, C-B04, C-Q20
#[tokio::test]
async fn a_strangers_call_is_an_unknown_call() {
    let world = World::new().await;
    let (owner, colleague) = (world.client(Role::Operator).await, world.client(Role::Admin).await);
    let other_tenant = world.database.create_tenant("globex").await;
    let stranger = world.client_of(other_tenant, Role::Admin).await;
    let call = start(&owner).await;

    let unknown = colleague.get("/api/mcp/stream/01JE0000000000000000000000").await;
    assert_eq!(unknown.told(), "404 not_found");
    for client in [&colleague, &stranger] {
        let answer = client.get(&format!("/api/mcp/stream/{call}")).await;
        assert_eq!(answer.without_request_id(), unknown.without_request_id());
    }
    let malformed = owner.get("/api/mcp/stream/nonsense").await;
    assert_eq!(malformed.without_request_id(), unknown.without_request_id());
}

// proves: C-N02, E-10, M2-E8, C-Q08
#[tokio::test]
async fn a_client_that_hangs_up_stops_the_call_and_its_intent_is_closed() {
    let world = World::new().await;
    world.behave(Behaviour::Hang);
    let (operator, admin) = (world.client(Role::Operator).await, world.client(Role::Admin).await);
    // One waits for the answer, the other reads the stream; both leave.
    let waiting = tokio::time::timeout(Duration::from_millis(500), operator.invoke(TOOL, json!({})));
    assert!(waiting.await.is_err());
    let call = start(&operator).await;
    let path = format!("/api/mcp/stream/{call}");
    assert!(tokio::time::timeout(Duration::from_millis(500), operator.get(&path)).await.is_err());

    eventually(async || {
        let rows = admin.get("/api/audit?type=adapter.capability_invoked").await.json();
        let rows = rows["events"].as_array().expect("events").clone();
        rows.iter().filter(|row| row["body"]["result"] == "cancelled").count() == 2
    })
    .await;
    assert_eq!(world.adapter.aborted.load(Ordering::SeqCst), 2);
}

// proves: C-B03, C-B08, REQ-016
#[tokio::test]
async fn another_tenants_target_is_not_there() {
    let world = World::new().await;
    let other = world.database.create_tenant("globex").await;
    world.add_target(other, 77, "their-forge");
    let operator = world.client(Role::Operator).await;
    let theirs = operator.invoke(TOOL, json!({"target_id": "their-forge"})).await;
    let by_id = operator.invoke(TOOL, json!({"target_id": "00000000-0000-0000-0000-00000000004d"})).await;
    let missing = operator.invoke(TOOL, json!({"target_id": "no-such-forge"})).await;
    assert_eq!(theirs.without_request_id(), missing.without_request_id());
    assert_eq!(by_id.without_request_id(), missing.without_request_id());
}
