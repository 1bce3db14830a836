//! `/mcp`: who gets in, what is listed, and what a call comes to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use identity::Role;
use mcp_core::error::AdapterError;
use mcp_core::policy::ToolPolicy;
use mcp_core::tool::ToolName;
use serde_json::{Value, json};

use crate::fixtures::FixtureTools;
use crate::world::{Answer, Behaviour, Client, World, eventually};

const WIRE: &str = "github__get_recent_ci_runs";

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"owner": "o", "repo": "r"}})
}

fn names(list: &Answer) -> Vec<String> {
    let tools = list.json()["result"]["tools"].as_array().expect("a list").clone();
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// The code of a protocol error, or `result`, or `isError`.
fn came_to(answer: &Answer) -> String {
    let body = answer.json();
    match (&body["error"]["code"], &body["result"]["isError"]) {
        (Value::Number(code), _) => code.to_string(),
        (_, Value::Bool(true)) => "isError".to_owned(),
        _ => "result".to_owned(),
    }
}

async fn audited(client: &Client, reason: &str) -> usize {
    let page = client.get("/api/audit?limit=200").await.json();
    let events = page["events"].as_array().expect("events").clone();
    events.iter().filter(|event| event["body"]["reason"] == reason).count()
}

// proves: M-01, X2-01, C-Q18
#[tokio::test]
async fn three_revisions_are_negotiated_without_a_session() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    for (asked, given) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params});
        let answer = client.send("POST", "/mcp", Some(message.to_string()), &[]).await;
        let body = answer.json();
        assert_eq!(body["id"], "a");
        assert_eq!(body["result"]["protocolVersion"], given, "{asked}");
        assert_eq!(body["result"]["capabilities"], json!({"tools": {"listChanged": false}}));
        assert!(body["result"]["instructions"].as_str().expect("text").contains("forge (github)"));
        assert_eq!(answer.header("mcp-session-id"), "");
        assert_eq!(answer.header("content-type"), "application/json");
    }

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    });
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
    let found = client.send("POST", "/mcp", Some(discover.to_string()), &headers).await.json();
    assert_eq!(found["result"]["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    assert_eq!(found["result"]["cacheScope"], "private");
    assert!(found["result"]["instructions"].as_str().expect("text").contains("forge (github)"));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let list = client.send("POST", "/mcp", Some(list.to_string()), &headers).await;
    assert_eq!(list.json()["result"]["cacheScope"], "private");
    assert_eq!(names(&list).len(), 9);
}

// proves: M-14, M-11, X2-02, X-06, C-P13, C-Q04
#[tokio::test]
async fn the_list_is_what_the_caller_may_call_under_names_that_every_client_takes() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let list = operator.mcp("tools/list", json!({})).await;
    insta::assert_snapshot!("mcp_tools", names(&list).join("\n"));
    let first = &list.json()["result"]["tools"][0];
    assert_eq!(first["title"], "proxmox.list_vms");
    assert_eq!(first["annotations"]["readOnlyHint"], true);
    assert_eq!(first["inputSchema"]["type"], "object");
    assert_eq!(first["outputSchema"]["type"], "object");
    assert!(list.json()["result"].get("nextCursor").is_none());

    // A viewer may call nothing, so nothing is listed, and a call all the same is refused.
    let viewer = world.client(Role::Viewer).await;
    assert_eq!(names(&viewer.mcp("tools/list", json!({})).await), Vec::<String>::new());
    assert_eq!(came_to(&viewer.mcp("tools/call", call(WIRE)).await), "isError");

    // A narrowed key sees and calls what it was narrowed to.
    let admin = world.client(Role::Admin).await;
    let body = json!({"name": "narrow", "role": "operator", "tools": ["github.get_recent_ci_runs"]});
    let key = admin.post("/api/keys", body).await.json()["key"].as_str().expect("a key").to_owned();
    let narrow = world.with_key(&key);
    assert_eq!(names(&narrow.mcp("tools/list", json!({})).await), [WIRE]);
    assert_eq!(came_to(&narrow.mcp("tools/call", call(WIRE)).await), "result");
    let other = json!({"name": "github__list_repos", "arguments": {}});
    assert_eq!(came_to(&narrow.mcp("tools/call", other).await), "-32602");

    // What the tenant has switched off is neither listed nor called.
    world.directory.set_policy(world.tenant, ToolPolicy::disabling([ToolName::GithubGetRecentCiRuns]));
    assert_eq!(names(&operator.mcp("tools/list", json!({})).await).len(), 8);
    assert_eq!(came_to(&operator.mcp("tools/call", call(WIRE)).await), "-32602");
}

// proves: M-04, M-05, M-06, REQ-018
#[tokio::test]
async fn a_call_answers_in_text_and_structure_and_says_what_a_model_can_mend() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    for name in [WIRE, "github.get_recent_ci_runs"] {
        let body = client.mcp("tools/call", call(name)).await.json();
        let result = &body["result"];
        assert_eq!(result["isError"], false);
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("json"), result["structuredContent"]);
        assert_eq!(result["content"].as_array().map(Vec::len), Some(1));
        assert!(result["_meta"]["coreci/auditReceipt"].as_str().expect("a receipt").contains(';'));
    }
    for unknown in ["nope.tool", "github.delete_repo", "", "GITHUB__LIST_REPOS"] {
        let answer = client.mcp("tools/call", json!({"name": unknown, "arguments": {}})).await;
        assert_eq!(came_to(&answer), "-32602", "{unknown}");
        assert!(answer.json()["error"]["message"].as_str().expect("text").starts_with("Unknown tool"));
    }
    let bad = client.mcp("tools/call", json!({"name": WIRE, "arguments": {"owner": "o"}})).await;
    assert_eq!(came_to(&bad), "isError");
    assert!(bad.json()["result"].get("structuredContent").is_none());
    assert!(bad.json()["result"]["content"][0]["text"].as_str().expect("text").contains("repo is missing"));

    world.behave(Behaviour::Fail(AdapterError::TooLarge));
    let failed = client.mcp("tools/call", call(WIRE)).await;
    assert_eq!(came_to(&failed), "isError");
    assert!(failed.text.contains("upstream_too_large"));
}

/// A call is answered without rmcp when nothing but name and arguments matters. Something else among its parameters, which
/// is none of ours, takes it through rmcp, and nobody may notice.
#[tokio::test]
async fn a_call_is_answered_alike_on_both_roads() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    for params in [
        call(WIRE),
        json!({"name": "github__list_repos"}),
        json!({"name": WIRE, "arguments": {"owner": "o"}}),
        json!({"name": "nope", "arguments": {}}),
    ] {
        let plain = client.mcp("tools/call", params.clone()).await;
        let mut more = params.clone();
        more["somethingElse"] = json!(1);
        let through_rmcp = client.mcp("tools/call", more).await;
        assert_eq!(plain.status, through_rmcp.status, "{params}");
        assert_eq!(plain.header("content-type"), through_rmcp.header("content-type"));
        let [plain, through_rmcp] = [plain, through_rmcp].map(|answer| {
            let mut body = answer.json();
            // Of one call each.
            if let Some(meta) = body["result"]["_meta"].as_object_mut() {
                meta.values_mut().for_each(|value| *value = json!(value.is_string()));
            }
            // A repeated call of an inventory tool is answered from the cache.
            if let Some(data) = body["result"]["structuredContent"].as_object_mut() {
                data.remove("cachedAgeSec");
                body["result"]["content"] = json!("its JSON");
            }
            body
        });
        assert_eq!(plain, through_rmcp, "{params}");
    }
}

// proves: M-03, C-B02, C-Q16
#[tokio::test]
async fn what_is_not_understood_gets_its_code_and_the_next_message_is_served() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    let code = |answer: &Answer| (answer.status.as_u16(), came_to(answer));
    for (text, status, error) in [
        ("{", 400, "-32700"),
        ("[]", 400, "-32600"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, 400, "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, 200, "-32602"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":[]}}"#,
            200,
            "-32602",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#, 400, "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, 200, "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Tools/List"}"#, 200, "-32601"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, 200, "-32601"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#, 200, "-32601"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#, 200, "-32601"),
    ] {
        let answer = client.send("POST", "/mcp", Some(text.to_owned()), &[]).await;
        assert_eq!(code(&answer), (status, error.to_owned()), "{text}");
        assert_eq!(came_to(&client.mcp("ping", json!({})).await), "result");
    }
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(client.send("POST", "/mcp", Some(notification.to_owned()), &[]).await.status.as_u16(), 202);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1024 * 1024));
    assert_eq!(client.send("POST", "/mcp", Some(large), &[]).await.told(), "413 body_too_large");
    let text = client.send("POST", "/mcp", Some("{}".to_owned()), &[("content-type", "text/plain")]).await;
    assert_eq!(text.told(), "415 unsupported_media_type");
}

// proves: C-P05, C-P07, X2-03
#[tokio::test]
async fn nobody_gets_in_without_a_good_credential_from_a_page_of_ours_under_our_name() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    let ping = || Some(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string());
    for key in ["", "cck_nonsense", "eyJhbGciOiJub25lIn0.e30."] {
        let answer = world.with_key(key).send("POST", "/mcp", ping(), &[]).await;
        assert_eq!(answer.told(), "401 unauthenticated");
        assert!(answer.header("www-authenticate").starts_with("Bearer"));
    }
    let nobody = world.anonymous().send("POST", "/mcp", ping(), &[]).await;
    assert_eq!(nobody.told(), "401 unauthenticated");
    assert!(nobody.header("www-authenticate").starts_with("Bearer"));
    for method in ["GET", "DELETE", "PUT"] {
        let answer = client.send(method, "/mcp", None, &[]).await;
        assert_eq!(answer.told(), "405 method_not_allowed");
        assert_eq!(answer.header("allow"), "POST");
    }
    for origin in ["https://evil.example", "null", "http://coreci.example"] {
        // Before the credential is looked at, and before the body.
        let answer = world.anonymous().send("POST", "/mcp", ping(), &[("origin", origin)]).await;
        assert_eq!(answer.told(), "403 origin_refused");
    }
    let own = client.send("POST", "/mcp", ping(), &[("origin", "https://coreci.example")]).await;
    assert_eq!(own.status.as_u16(), 200);
    let elsewhere = client.send("POST", "/mcp", ping(), &[("host", "evil.example")]).await;
    assert_eq!(elsewhere.told(), "421 host_refused");
    // Well-known documents of an authorization server exist only when there is one.
    let document = client.get("/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(document.status.as_u16(), 404);
}

// proves: C-Q19
#[tokio::test]
async fn headers_that_contradict_the_body_are_refused_and_written_down() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call(WIRE)}).to_string();
    let headers = [("mcp-method", "tools/list"), ("mcp-protocol-version", "2026-07-28")];
    let answer = admin.send("POST", "/mcp", Some(message), &headers).await;
    assert_eq!((answer.status.as_u16(), came_to(&answer)), (400, "-32020".to_owned()));
    assert_eq!(world.reached(), 0);
    assert_eq!(audited(&admin, "header_mismatch").await, 1);
}

// proves: C-Q08, REQ-010
#[tokio::test]
async fn closing_the_response_stops_the_call_and_closes_its_intent() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    world.behave(Behaviour::Hang);
    let hung = {
        let admin = admin.clone();
        tokio::spawn(async move { admin.mcp("tools/call", call(WIRE)).await })
    };
    eventually(|| async { world.reached() == 1 }).await;
    hung.abort();
    let left = tokio::time::Instant::now();
    eventually(|| async { world.adapter.aborted.load(Ordering::SeqCst) == 1 }).await;
    assert!(left.elapsed() < Duration::from_secs(1));
    eventually(|| async { audited(&admin, "caller_left").await == 1 }).await;
}

// proves: AD-08
#[tokio::test]
async fn a_result_for_a_model_is_cut_to_its_budget_and_says_so() {
    let world = World::new().await;
    let client = world.client(Role::Operator).await;
    world.behave(Behaviour::AnswerLong);
    let answer = client.mcp("tools/call", call(WIRE)).await;
    let result = answer.json()["result"].clone();
    let size = result.to_string().len();
    assert!(size < 33 * 1024 && size > 16 * 1024, "{size}");
    assert_eq!(result["structuredContent"]["truncated"], true);
    assert!(result["structuredContent"]["hint"].as_str().expect("a hint").contains("ask for"));
}

#[tokio::test]
async fn content_of_every_kind_and_schemas_with_every_word_arrive_as_they_were_sent() {
    let world = World::offering(Arc::new(FixtureTools)).await;
    let client = world.client(Role::Operator).await;
    let ask = async |method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut body =
            client.send("POST", "/mcp", Some(message.to_string()), &[("host", "127.0.0.1")]).await.json();
        body["result"].take()
    };
    let content = async |tool: &str| ask("tools/call", json!({"name": tool})).await["content"].take();

    let mixed = content("test_multiple_content_types").await;
    let kinds: Vec<_> = mixed.as_array().expect("blocks").iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    assert_eq!(mixed[1]["mimeType"], "image/png");
    let document = json!({"uri": "test://data", "mimeType": "application/json", "text": "{\"kinds\": 3}"});
    assert_eq!(mixed[2]["resource"], document);
    assert_eq!(content("test_audio_content").await[0]["mimeType"], "audio/wav");
    let list = ask("tools/list", json!({})).await;
    let last = list["tools"].as_array().and_then(|tools| tools.last()).expect("a tool");
    assert!(last["inputSchema"]["$defs"]["address"]["$anchor"].is_string(), "{last}");
}
