//! What a client or an operator hands over in confidence stands in no answer, no log and no audit row, whatever was asked.

use serde_json::{Value, json};

use crate::server::{Client, Server, scratch};

/// In the form of a fine-grained token, or it would not be stored.
const CREDENTIAL: &str = "github_pat_11CANARY00abcdefghijkl_ABCDEFGH";
const HEADER: &str = "canary-of-a-header";

/// A message at `/mcp`, or a request to the facade, with a canary wherever a client can put one.
struct Asked {
    path: String,
    body: Value,
}

fn asked(adapter: &str) -> Vec<Asked> {
    let message = |method: &str, params: Value| Asked {
        path: "/mcp".to_owned(),
        body: json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
    };
    let client = json!({"name": "t", "version": "1"});
    let invoke = |body: Value| Asked { path: "/api/mcp/invoke?wait=true".to_owned(), body };
    vec![
        message(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        ),
        message("tools/list", json!({})),
        message("tools/call", json!({"name": "github__list_repos", "arguments": {}})),
        message("tools/call", json!({"name": "github__delete_repo", "arguments": {}})),
        message("tools/call", json!({"name": "github__list_repos", "arguments": {}, "more": 1})),
        message("no/such/method", json!({})),
        invoke(json!({"tool": "github.list_repos", "args": {}})),
        invoke(json!({"tool": "github.delete_repo", "args": {}})),
        invoke(json!({"tool": "github.list_repos", "args": {"no": "such"}})),
        Asked { path: "/api/mcp/adapter".to_owned(), body: json!({"type": "github", "name": "gh"}) },
        Asked { path: format!("/api/mcp/adapter/{adapter}/test"), body: json!({}) },
        Asked { path: "/no/such/path".to_owned(), body: json!({}) },
    ]
}

/// Every name of a header that carries something confidential somewhere, and one of our own invention.
const HEADERS: [&str; 8] = [
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-forwarded-for",
    "x-forwarded-host",
    "user-agent",
    "mcp-session-id",
    "x-no-such-header",
];

// proves: C-Q01, C-Q02
#[tokio::test]
async fn a_canary_stands_in_no_answer_no_log_and_no_audit_row() {
    let scratch = scratch();
    let server = Server::start_logging(&scratch.path().join("server"), "trace").await;
    let admin = server.key("root", "admin");
    let keys = [admin.clone(), server.key("op", "operator"), server.key("view", "viewer")];
    let adapter = json!({
        "type": "github", "name": "gh", "base_url": "https://ghe.invalid/api/v3", "credential": CREDENTIAL,
        "save_unverified": true,
    });
    let stored = Client::new(&server.url, &admin).post("/api/mcp/adapter", adapter).await;
    let stored: Value = stored.json().await.expect("JSON");
    let adapter = stored["id"].as_str().expect("an id");

    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut answers = Vec::new();
    let bearers = keys.iter().map(String::as_str).chain([HEADER, "cck_canary-of-a-header"]);
    for bearer in bearers {
        for Asked { path, body } in asked(adapter) {
            for host in [None, Some("canary-of-a-header.example")] {
                let url = format!("{}{path}", server.url);
                let mut request = http.post(url).bearer_auth(bearer).json(&body);
                for name in HEADERS {
                    request = request.header(name, HEADER);
                }
                if let Some(host) = host {
                    request = request.header("host", host);
                }
                let answer = request.send().await.expect("an answer");
                let headers = format!("{:?}", answer.headers());
                answers.push(format!("{path} {headers} {}", answer.text().await.expect("text")));
            }
        }
    }
    assert!(answers.iter().any(|answer| answer.contains("upstream_error")), "the adapter was never asked");
    assert!(answers.iter().any(|answer| answer.contains("forbidden")), "nobody was denied");
    assert!(answers.iter().any(|answer| answer.contains("steps")), "no connection was tested");

    let audit = Client::new(&server.url, &admin).json("/api/audit?limit=200").await.to_string();
    assert!(audit.contains("adapter.configured"));
    let log = server.log();
    assert!(log.contains("TRACE"), "the log says nothing");
    for (sink, text) in [("an answer", &answers.join("\n")), ("the audit log", &audit), ("the log", &log)] {
        for canary in [CREDENTIAL, HEADER].into_iter().chain(keys.iter().map(String::as_str)) {
            let line = text.lines().find(|line| line.contains(canary));
            assert_eq!(line, None, "{sink} says {canary}");
        }
    }
    assert_eq!(server.terminate(), Some(0));
}
