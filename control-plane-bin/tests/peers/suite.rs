//! MCP's official conformance suite, at each revision that is negotiated.

use serde_json::json;

use crate::program::perform;

/// Runs the suite with the known failures of this name, and says how many scenarios there were and how many passed.
#[expect(clippy::print_stdout, reason = "a test's own report")]
pub(crate) async fn run(url: &str, key: &str, known: &str) -> [(u64, u64); 3] {
    let task = json!({"url": url, "key": key, "known": known});
    let report = perform("node24/node", "conformance.mjs", &task).await;
    ["2025-06-18", "2025-11-25", "2026-07-28"].map(|revision| {
        let found = &report[revision];
        assert_eq!(found["unexpected"], json!([]), "{revision}, {known}: these fail and are not known to");
        assert_eq!(found["stale"], json!([]), "{revision}, {known}: these are known to fail and do not");
        assert_eq!(found["status"], 0, "{revision}, {known}: {}", found["said"]);
        let count = |what: &str| found[what].as_u64().expect("a number");
        let (scenarios, passed) = (count("scenarios"), count("passed"));
        println!("{revision}, {known}: {passed} of {scenarios} pass, {} known failures", count("known"));
        (scenarios, passed)
    })
}
