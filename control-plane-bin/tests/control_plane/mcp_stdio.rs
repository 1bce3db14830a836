//! `mcp-stdio` as a client starts it: a program with three pipes.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::server::{Server, control_plane, scratch};

/// Runs the bridge on these lines to its end.
fn bridge(args: &[&str], data: &std::path::Path, lines: &str) -> Output {
    let mut program = control_plane(data);
    program.arg("mcp-stdio").args(args);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("started");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("written");
    child.wait_with_output().expect("ended")
}

fn messages(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("only messages on standard output")).collect()
}

// proves: M-09, C-Q03
#[tokio::test]
async fn a_client_on_pipes_is_served_and_the_bridge_ends_with_its_input() {
    let files = scratch();
    let data = files.path().join("server");
    let server = Server::start(&data).await;
    let key = files.path().join("key");
    std::fs::write(&key, server.key("bridge", "operator")).expect("written");
    let key = key.to_str().expect("text");
    let init = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "ssh__run_whitelisted_command", "arguments": {"command": "uptime"}}});
    let elsewhere = files.path().join("nothing-here");
    let output =
        bridge(&["--url", &server.url, "--key-file", key], &elsewhere, &format!("{init}\n{list}\n{call}\n"));
    assert!(output.status.success());
    let mut answers = messages(&output);
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[1]["result"]["tools"].as_array().map(Vec::len), Some(9));
    // There is no host yet, which the tool says itself.
    assert_eq!(answers[2]["result"]["isError"], true);

    let nothing = bridge(&["--url", &server.url, "--key-file", key], &elsewhere, "");
    assert!(nothing.status.success() && nothing.stdout.is_empty() && nothing.stderr.is_empty());
}

#[test]
fn without_a_control_plane_it_says_so_in_one_line() {
    let files = scratch();
    let output = bridge(&[], files.path(), "");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("control-plane dev") && said.contains("--url"), "{said}");
    assert!(output.stdout.is_empty());
}

// proves: L-05
#[test]
fn the_program_holds_nothing_of_the_model_that_only_tests_have() {
    let bytes = std::fs::read(env!("CARGO_BIN_EXE_control-plane")).expect("a program");
    let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(holds(b"mcp-stdio") && !holds(b"llm-mock") && !holds(b"llm_mock"));
}
