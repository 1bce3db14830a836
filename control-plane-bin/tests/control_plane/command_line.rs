//! The commands, with and without a running server.

use serde_json::json;

use crate::server::{Client, Server, eventually, run, run_json, scratch};

#[tokio::test]
async fn tenants_and_keys_are_managed_with_and_without_a_server() {
    let scratch = scratch();
    let data = scratch.path();
    // Without a server the embedded database runs for as long as the command does.
    assert_eq!(run_json(data, &["migrate"])["schema"], json!(tenancy::migrate::known_version()));
    let tenant = run_json(data, &["tenant", "create", "acme", "--name", "Acme GmbH"]);
    assert_eq!(tenant["status"], "active");
    assert_eq!(run(data, &["tenant", "create", "acme"]).status.code(), Some(1), "the name is taken");
    assert_eq!(run(data, &["tenant", "create", "Not A Slug"]).status.code(), Some(2));
    assert_eq!(run(data, &["tenant", "suspend", "nobody"]).status.code(), Some(4));
    let key = run(data, &["key", "create", "--name", "root", "--role", "admin"]);
    let key = String::from_utf8(key.stdout).expect("text");
    assert!(key.starts_with("cck_") && key.trim().lines().count() == 1, "the key alone, for redirection");
    assert_eq!(run(data, &["key", "create", "--name", "x", "--role", "root"]).status.code(), Some(2));

    let server = Server::start(data).await;
    let admin = Client::new(&server.url, key.trim());
    assert_eq!(admin.get("/api/me").await.status().as_u16(), 200);
    let made = run_json(data, &["key", "create", "--name", "ci", "--role", "viewer"]);
    assert_eq!(run_json(data, &["key", "list"]).as_array().expect("a list").len(), 2);
    let id = made["id"].as_str().expect("an id");
    assert_eq!(run(data, &["key", "revoke", id]).status.code(), Some(0));
    assert_eq!(run(data, &["key", "revoke", "00000000-0000-0000-0000-000000000001"]).status.code(), Some(4));

    // Tools and targets go over HTTP, with a key from a file.
    let key_file = data.join("root.key");
    std::fs::write(&key_file, key).expect("written");
    let remote = ["--url", &server.url, "--key-file", key_file.to_str().expect("text")];
    let tools = run_json(data, &[&["tools", "list"], &remote[..]].concat());
    assert_eq!(tools.as_array().expect("a list").len(), 9);
    let made = run_json(data, &[&["targets", "enroll", "db-1"], &remote[..]].concat());
    assert!(made["command"].as_str().expect("a command").contains("relay-agent enroll"));
    assert_eq!(run_json(data, &[&["targets", "list"], &remote[..]].concat()), json!([]));
    let missing = [&["targets", "revoke", "nowhere"], &remote[..]].concat();
    assert_eq!(run(data, &missing).status.code(), Some(4));
    let call =
        [&["tools", "call", "ssh.run_whitelisted_command", r#"{"command":"id"}"#], &remote[..]].concat();
    assert_eq!(run(data, &call).status.code(), Some(3), "refused");
    assert_eq!(run(data, &["tools", "list"]).status.code(), Some(1), "nothing says where the server is");

    assert_eq!(run_json(data, &["tenant", "suspend", "acme"])["status"], "suspended");
    eventually("its keys are refused", async || admin.get("/api/me").await.status().as_u16() == 401).await;
    assert_eq!(run_json(data, &["tenant", "resume", "acme"])["status"], "active");
    eventually("its keys are good again", async || admin.get("/api/me").await.status().as_u16() == 200).await;
    assert_eq!(run_json(data, &["tenant", "delete", "acme"])["status"], "deleted");
    let verdicts = run_json(data, &["audit", "verify", "--all"]);
    let intact = |row: &serde_json::Value| row["intact"] == true;
    assert!(verdicts.as_array().expect("a list").iter().all(intact), "{verdicts}");
    assert_eq!(server.terminate(), Some(0));
}
