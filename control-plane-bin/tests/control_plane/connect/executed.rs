//! What is printed is run, as it stands, against a server.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Home, text};
use crate::server::Server;

/// The JSON that each line of an output holds.
fn lines(output: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(output);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON in each line")).collect()
}

/// A home, and a server that takes the key in it.
async fn started() -> (Home, Server) {
    let home = Home::new();
    let server = Server::start(&home.path("server")).await;
    std::fs::write(home.path("api.key"), server.key("client", "operator")).expect("written");
    (home, server)
}

// proves: X2-01
#[tokio::test]
async fn the_printed_curl_commands_list_the_tools_and_call_one() {
    let (home, server) = started().await;
    let key = home.path("the user's.key");
    std::fs::rename(home.path("api.key"), &key).expect("renamed");
    let from_file = home.connect(&["curl", "--url", &server.url, "--key-file", text(&key)]);
    let mut secret = std::fs::read_to_string(&key).expect("a key");
    let from_variable = home.connect(&["curl", "--url", &server.url]);
    for (printed, variable) in [(from_file, String::new()), (from_variable, std::mem::take(&mut secret))] {
        assert!(printed.status.success(), "{}", home.redact(&printed.stderr));
        let script = String::from_utf8(printed.stdout).expect("text");
        let mut shell = Command::new("sh");
        shell.env("CORECI_API_KEY", variable.trim()).arg("-c").arg(&script);
        let output = shell.output().expect("a shell");
        let answers = lines(&output.stdout);
        assert_eq!(answers.len(), 2, "{script}\n{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(answers[0]["result"]["tools"].as_array().map(Vec::len), Some(9), "{}", answers[0]);
        // There is no host yet, which the tool says itself.
        assert_eq!((&answers[1]["id"], &answers[1]["result"]["isError"]), (&json!(2), &json!(true)));
    }
}

// proves: M-09
#[tokio::test]
async fn the_written_bridge_starts_and_answers() {
    let (home, server) = started().await;
    let key = home.path("api.key");
    let written =
        home.connect(&["claude-desktop", "--write", "--url", &server.url, "--key-file", text(&key)]);
    assert!(written.status.success(), "{}", home.redact(&written.stderr));
    let file = home.path(".config/Claude/claude_desktop_config.json");
    let configuration = std::fs::read_to_string(file).expect("written");
    let configuration: Value = serde_json::from_str(&configuration).expect("JSON");
    let entry = &configuration["mcpServers"]["coreci"];
    let program = entry["command"].as_str().expect("a program");
    assert!(Path::new(program).is_absolute(), "an application starts in another directory");
    let args: Vec<_> = entry["args"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();

    // As an application starts it: elsewhere, with a home and little else. The environment of the tests is cleared of ours.
    let mut bridge = Command::new(program);
    bridge.args(args).current_dir("/").env_clear().env("HOME", home.directory.path());
    bridge.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bridge = bridge.spawn().expect("started");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut input = bridge.stdin.take().expect("a pipe");
    write!(input, "{hello}\n{done}\n{list}\n").expect("written");
    drop(input);
    let output = bridge.wait_with_output().expect("ended");
    assert!(output.status.success());
    let mut answers = lines(&output.stdout);
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "coreci");
    assert_eq!(answers[1]["result"]["tools"].as_array().map(Vec::len), Some(9));
}

/// The header that a client sends once it has put values in place of its variables.
#[tokio::test]
async fn the_key_opens_the_door_by_the_header_and_url_that_clients_are_given() {
    let (home, server) = started().await;
    let key_file = home.path("api.key");
    let key = std::fs::read_to_string(&key_file).expect("a key");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for (client, variable) in [
        ("claude-code", "${CORECI_API_KEY}"),
        ("cursor", "${env:CORECI_API_KEY}"),
        ("vscode", "${input:coreci-api-key}"),
    ] {
        let printed = home.connect(&[client, "--url", &server.url, "--key-file", text(&key_file)]);
        let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
        let section = if client == "vscode" { "servers" } else { "mcpServers" };
        let entry = &printed[section]["coreci"];
        let header =
            entry["headers"]["Authorization"].as_str().expect("a header").replace(variable, key.trim());
        let request = http.post(entry["url"].as_str().expect("a URL")).header("Authorization", header);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let answer: Value = request.json(&list).send().await.expect("sent").json().await.expect("JSON");
        assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(9), "{client}: {answer}");
    }
}
