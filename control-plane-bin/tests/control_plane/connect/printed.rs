//! What is printed for each client.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Home, KEY, URL, text};

const CLIENTS: [&str; 7] =
    ["claude-desktop", "claude-code", "vscode", "cursor", "codex", "inspector", "curl"];

/// What all clients are told, one after the other: standard output, then what is said beside it.
fn all(home: &Home, args: &[&str]) -> String {
    let mut all = String::new();
    for client in CLIENTS {
        let output = home.with_key(&[&[client], args].concat());
        let (out, err) = (home.redact(&output.stdout), home.redact(&output.stderr));
        write!(all, "== {client} {}\n{out}--\n{err}\n", output.status.code().unwrap_or(-1)).expect("text");
    }
    all
}

#[test]
fn each_client_gets_its_own_form() {
    let home = Home::new();
    let printed = all(&home, &[]);
    assert!(!printed.contains(KEY), "the key stays in its file");
    insta::assert_snapshot!(printed);
}

#[test]
fn another_name_has_another_variable_and_an_authority_is_handed_on() {
    let home = Home::new();
    std::fs::write(home.path("it's ca.pem"), "PEM").expect("written");
    let ca = home.path("it's ca.pem");
    insta::assert_snapshot!(all(&home, &["--name", "lab-2", "--ca-file", text(&ca)]));
}

#[test]
fn the_key_itself_is_written_only_where_it_is_asked_for() {
    let home = Home::new();
    for (client, code) in
        [("claude-code", 0), ("cursor", 0), ("claude-desktop", 2), ("vscode", 2), ("codex", 2), ("curl", 2)]
    {
        let output = home.with_key(&[client, "--embed-key"]);
        assert_eq!(output.status.code(), Some(code), "{client}");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(out.contains(&format!("\"Bearer {KEY}\"")), code == 0, "{out}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains(KEY));
    }
    let without = home.connect(&["cursor", "--embed-key", "--url", URL]);
    assert_eq!(without.status.code(), Some(2));
}

#[test]
fn a_key_in_the_environment_or_none_is_enough_where_the_client_asks_or_has_it() {
    let home = Home::new();
    for client in CLIENTS {
        let code = Some(if client == "claude-desktop" { 2 } else { 0 });
        let args = [client, "--url", URL];
        assert_eq!(home.connect(&args).status.code(), code, "{client}");
        let with = home.command(&args).env("CORECI_API_KEY", KEY).output().expect("it runs");
        assert_eq!(with.status.code(), code, "{client}");
        assert!(!String::from_utf8_lossy(&with.stdout).contains(KEY), "{client}");
    }
    let desktop = home.command(&["claude-desktop", "--url", URL]).env("CORECI_API_KEY", KEY).output();
    let said = home.redact(&desktop.expect("it runs").stderr);
    assert!(said.contains("--key-file"), "{said}");
}

#[test]
fn while_dev_runs_nothing_has_to_be_named() {
    let home = Home::new();
    assert_eq!(home.connect(&["vscode"]).status.code(), Some(1), "nothing says where the server is");
    std::fs::create_dir_all(home.path("data/keys")).expect("made");
    let dev = json!({"url": "http://127.0.0.1:7420", "mcpUrl": "http://127.0.0.1:7420/mcp", "apiKey": KEY,
        "tenantId": "t", "targetId": "t", "loginUrl": null});
    for (name, content) in [("data/dev.json", dev.to_string()), ("data/keys/demo-admin.key", KEY.to_owned())]
    {
        std::fs::write(home.path(name), content).expect("written");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(home.path(name), private).expect("changed");
    }
    let output = home.connect(&["claude-desktop", "-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let printed: Value = serde_json::from_str(answer["configuration"].as_str().expect("text")).expect("JSON");
    let args = &printed["mcpServers"]["coreci"]["args"];
    let key = home.path("data/keys/demo-admin.key");
    assert_eq!(*args, json!(["mcp-stdio", "--url", "http://127.0.0.1:7420", "--key-file", text(&key)]));
    assert!(answer["file"].as_str().expect("a path").ends_with("claude_desktop_config.json"));
}

#[test]
fn wrong_usage_is_told_and_prints_nothing() {
    let home = Home::new();
    let key = home.path("api.key");
    let no_key = home.path("no.key");
    std::fs::write(&no_key, "two words\n").expect("written");
    let missing = home.path("missing.key");
    for (args, code) in [
        (vec!["emacs"], 2),
        (vec!["curl", "--url", "ftp://c", "--key-file", text(&key)], 2),
        (vec!["curl", "--url", "https://c/path", "--key-file", text(&key)], 2),
        (vec!["curl", "--url", "https://$(id)", "--key-file", text(&key)], 2),
        (vec!["curl", "--url", URL, "--key-file", text(&key), "--name", "a b"], 2),
        (vec!["curl", "--url", URL, "--key-file", text(&no_key)], 2),
        (vec!["curl", "--key-file", text(&key)], 2),
        (vec!["curl", "--url", URL, "--key-file", text(&missing)], 1),
    ] {
        let output = home.connect(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("two words"));
    }
    let plain = home.connect(&["curl", "--url", "http://10.0.0.1:7420", "--key-file", text(&key)]);
    assert!(plain.status.success() && home.redact(&plain.stderr).contains("not encrypted"));
}
