//! The seven artefacts of conformance, as the server really says them: each is a committed snapshot, so that a change of
//! what clients see is a diff for somebody to agree with.

use std::sync::Arc;

use adapter_github::{GithubAdapter, GithubOptions};
use egress::testing::{Reply, StaticResolver, loopback_policy};
use egress::{EgressUrl, TlsTrust, UpstreamClient};
use mcp_broker::transport::in_process::Link;
use mcp_core::jsonrpc::Id;
use mcp_core::mcp::{CallToolResult, MCP_PROTOCOL_VERSION};
use mcp_core::openai::{ToolCall, call_request, function_definition, tool_message};
use mcp_core::tool::catalogue;
use serde_json::{Value, json};

use crate::product::{Product, REPOS, body};

/// The revisions that `/mcp` speaks, oldest first.
pub(crate) const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", STATELESS];
/// The first revision without a handshake.
const STATELESS: &str = "2026-07-28";

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Indented, with what is different in every run replaced.
fn text(mut message: Value) -> String {
    if let Some(meta) = message.pointer_mut("/result/_meta").and_then(Value::as_object_mut) {
        for (name, value) in meta {
            assert!(value.as_str().is_some_and(|text| text.len() > 8), "{name}: {value}");
            *value = json!("(differs)");
        }
    }
    serde_json::to_string_pretty(&message).expect("JSON")
}

async fn call(product: &Product, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    let (status, answer) = product.mcp(&request("tools/call", &params), MCP_PROTOCOL_VERSION).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

// proves: M-12
#[tokio::test]
async fn what_a_client_sees_of_tools_is_as_committed() {
    let (product, github) = Product::with_github(body(REPOS)).await;
    let (_, list) = product.mcp(&request("tools/list", &json!({})), MCP_PROTOCOL_VERSION).await;
    insta::assert_snapshot!("tools-list", text(list));
    let happy = call(&product, "github__list_repos", json!({})).await;
    insta::assert_snapshot!("tools-call-happy", text(happy));
    let invalid = call(&product, "github__list_repos", json!({"affiliation": 7, "extra": true})).await;
    insta::assert_snapshot!("tools-call-invalid-args", text(invalid));
    // Asked in another way than before, or the answer would come from the cache.
    github.on("/repos/Octo-Org/Hello.World/actions/runs", Reply::json(404, json!({"message": "Not Found"})));
    let arguments = json!({"owner": "Octo-Org", "repo": "Hello.World"});
    let error = call(&product, "github__get_recent_ci_runs", arguments).await;
    insta::assert_snapshot!("tools-call-error", text(error));
    product.stop().await;
}

// proves: M-12, X-01, X-04
#[test]
fn the_translation_is_as_committed() {
    let called = json!({"id": "call_1", "type": "function", "function": {
        "name": "ssh__run_whitelisted_command", "arguments": "{\"command\":\"uptime\"}",
    }});
    let read: ToolCall = serde_json::from_value(called.clone()).expect("a call");
    let result = |is_error: bool| CallToolResult {
        content: serde_json::from_value(json!([
            {"type": "text", "text": "up 3 days"},
            {"type": "text", "text": "load average: 0.1"},
        ]))
        .expect("content"),
        structured_content: None,
        is_error,
        meta: serde_json::Map::new(),
    };
    let unreadable = json!({"id": "call_2", "function": {"name": "github__list_repos", "arguments": "{"}});
    let unreadable: ToolCall = serde_json::from_value(unreadable).expect("a call");
    let sides = json!({
        "a tool, offered": function_definition(&catalogue()[0]),
        "a call of the model": called,
        "as MCP's request": call_request(&read, Id::Number(1)).expect("a request"),
        "its result, told": tool_message("call_1", &result(false)),
        "its failure, told": tool_message("call_1", &result(true)),
        "a call that cannot be read": call_request(&unreadable, Id::Number(2)).expect_err("refused"),
    });
    insta::assert_snapshot!("translator", serde_json::to_string_pretty(&sides).expect("JSON"));
}

// proves: M-12
#[test]
fn the_handshake_of_an_adapter_is_as_committed() {
    let policy = loopback_policy();
    let base = EgressUrl::parse("http://127.0.0.1:9", &policy).expect("a base URL");
    let client = UpstreamClient::new(base, TlsTrust::System, policy, Arc::new(StaticResolver::loopback()));
    let adapter = GithubAdapter::new(client.expect("a client"), GithubOptions::default());
    let link = Link::register(Arc::new(adapter));
    let spoken = link.lifecycle();
    let spoken = json!({
        "offered": spoken.offered,
        "answered": spoken.answered.as_ref().expect("an answer"),
        "confirmed": spoken.confirmed.as_ref().expect("agreed"),
    });
    insta::assert_snapshot!("lifecycle", serde_json::to_string_pretty(&spoken).expect("JSON"));
}

/// How a client of this revision begins.
fn opening(revision: &str) -> Value {
    if revision == STATELESS {
        return request("server/discover", &introduced(json!({}), revision));
    }
    let client = json!({"name": "evidence", "version": "1"});
    request("initialize", &json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client}))
}

/// Without a handshake, every request says who asks.
fn introduced(mut params: Value, revision: &str) -> Value {
    if revision == STATELESS {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "evidence", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    params
}

// proves: M-12
#[tokio::test]
async fn the_revisions_are_as_committed() {
    let product = Product::start(&[]).await;
    let mut answers = vec![json!({"the revision of the evidence": MCP_PROTOCOL_VERSION})];
    for revision in REVISIONS.into_iter().chain(["2024-11-05", "1999-01-01"]) {
        let opening = product.mcp(&opening(revision), revision).await;
        let list = product.mcp(&request("tools/list", &introduced(json!({}), revision)), revision).await;
        let error = |answer: &Value| answer.get("error").cloned();
        answers.push(json!({
            "revision": revision,
            "opening": {
                "status": opening.0,
                "agreed": opening.1["result"].get("protocolVersion").or(opening.1["result"].get("supportedVersions")),
                "error": error(&opening.1),
            },
            "tools/list": {
                "status": list.0,
                "tools": list.1["result"]["tools"].as_array().map(Vec::len),
                "error": error(&list.1),
            },
        }));
    }
    insta::assert_snapshot!("version-pin", serde_json::to_string_pretty(&answers).expect("JSON"));
    product.stop().await;
}
