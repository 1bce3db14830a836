//! MCP's official conformance suite, at each revision that is negotiated.

use serde_json::json;

use crate::program::perform;
use crate::server::{Server, scratch};

/// Runs the suite with the known failures of this name, and says how many scenarios there were and how many passed.
async fn suite(url: &str, key: &str, known: &str) -> [(u64, u64); 3] {
    let task = json!({"url": url, "key": key, "known": known});
    let report = perform("node24/node", "conformance.mjs", &task).await;
    ["2025-06-18", "2025-11-25", "2026-07-28"].map(|revision| {
        let found = &report[revision];
        assert_eq!(found["unexpected"], json!([]), "{revision}, {known}: these fail and are not known to");
        assert_eq!(found["stale"], json!([]), "{revision}, {known}: these are known to fail and do not");
        assert_eq!(found["status"], 0, "{revision}, {known}: {}", found["said"]);
        let count = |what: &str| found[what].as_u64().expect("a number");
        (count("scenarios"), count("passed"))
    })
}

// proves: X2-01, M-12
#[tokio::test]
async fn the_official_suite_finds_nothing_but_what_nine_tools_cannot_have() {
    let files = scratch();
    let server = Server::start(&files.path().join("server")).await;
    let key = server.key("suite", "operator");
    let found = suite(&format!("{}/mcp", server.url), &key, "product").await;
    assert_eq!(found, [(27, 4), (33, 5), (50, 7)]);
}
