//! MCP's official conformance suite against the nine tools. `http-api/tests/peers` has it against its own.

use crate::server::{Server, scratch};
use crate::suite;

// proves: X2-01, M-12
#[tokio::test]
async fn the_official_suite_finds_nothing_but_what_nine_tools_cannot_have() {
    let files = scratch();
    let server = Server::start(&files.path().join("server")).await;
    let key = server.key("suite", "operator");
    let found = suite::run(&format!("{}/mcp", server.url), &key, "product").await;
    assert_eq!(found, [(27, 4), (33, 5), (50, 7)]);
}
