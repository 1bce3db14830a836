//! kill -9 between intent and answer, and a polite end.

use std::collections::BTreeMap;
use std::io::BufReader;

use audit::export::read_rows;
use serde_json::{Value, json};

use crate::server::{Client, Server, eventually, run, run_json, scratch};
use crate::stalling_agent::StallingAgent;

const KILLS: usize = 20;

fn uptime() -> Value {
    json!({"tool": "ssh.run_whitelisted_command", "args": {"command": "uptime"}})
}

/// The bodies of all call rows of an export, by phase, keyed by call; and seq → hash.
fn exported(data: &std::path::Path) -> (Vec<Value>, BTreeMap<u64, String>) {
    let file = data.join("export.ndjson");
    let _ = std::fs::remove_file(&file);
    run_json(data, &["audit", "export", "--out", file.to_str().expect("text")]);
    let reader = BufReader::new(std::fs::File::open(file).expect("a file"));
    let rows: Vec<_> = read_rows(reader).map(|row| row.expect("a row")).collect();
    let hashes = rows.iter().map(|row| (row.seq, hex(&row.hash))).collect();
    let calls = rows.iter().filter(|row| row.event_type == "adapter.capability_invoked");
    (calls.map(|row| serde_json::from_slice(&row.body).expect("JSON")).collect(), hashes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// proves: C-O01, C-K18, C-L02, INV-4
#[tokio::test]
async fn twenty_kills_between_intent_and_answer_lose_nothing_and_leave_nothing_open() {
    let scratch = scratch();
    let mut server = Server::start(scratch.path()).await;
    let url = server.url.clone();
    let admin = Client::new(&url, &server.key("root", "admin"));
    let agent = StallingAgent::enrol(&admin, "stalling").await;
    let mut receipts = BTreeMap::new();
    let mut calls = Vec::new();

    for round in 0..KILLS {
        let mut commands = agent.connect(&url).await;
        let accepted = admin.post("/api/mcp/invoke", uptime()).await;
        assert_eq!(accepted.status().as_u16(), 202, "round {round}");
        let receipt = accepted.headers()["x-audit-receipt"].to_str().expect("text").to_owned();
        let (seq, hash) = receipt.split_once(';').expect("a receipt");
        receipts.insert(seq.parse::<u64>().expect("a number"), hash.to_owned());
        let accepted: Value = accepted.json().await.expect("JSON");
        calls.push(accepted["correlationId"].as_str().expect("an id").to_owned());
        assert_eq!(commands.recv().await.as_deref(), Some("uptime"), "it has left the building");
        server.kill();
        server = Server::start_at(scratch.path(), &url).await;
    }

    let verified = run(scratch.path(), &["audit", "verify", "--all"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    let (rows, hashes) = exported(scratch.path());
    for (seq, hash) in &receipts {
        assert_eq!(hashes.get(seq), Some(hash), "an acknowledged row is missing or changed");
    }
    for call in &calls {
        let of_call: Vec<_> = rows.iter().filter(|row| row["correlationId"] == call.as_str()).collect();
        let phases: Vec<_> = of_call.iter().map(|row| row["phase"].as_str().expect("a phase")).collect();
        assert_eq!(phases, ["started", "finished"], "{call}");
        assert_eq!(of_call[1]["result"], "interrupted", "{call}");
    }
    assert_eq!(server.terminate(), Some(0));
}

// proves: C-O02
#[tokio::test]
async fn a_polite_end_interrupts_what_does_not_end_by_itself_and_tells_the_reader() {
    let scratch = scratch();
    let mut server = Server::start(scratch.path()).await;
    let admin = Client::new(&server.url, &server.key("root", "admin"));
    let agent = StallingAgent::enrol(&admin, "stalling").await;
    let mut commands = agent.connect(&server.url).await;
    let accepted: Value = admin.post("/api/mcp/invoke", uptime()).await.json().await.expect("JSON");
    commands.recv().await.expect("a command");
    let path = accepted["streamUrl"].as_str().expect("a path").to_owned();
    // The headers of the answer are here, so the reader is attached.
    let reader = admin.get(&path).await;
    server.ask_to_stop();
    // The call ends at its own deadline of 10 s, within the 15 s that the server grants.
    let stream = reader.text().await.expect("a stream");
    assert!(stream.contains("event: error") && stream.contains("upstream_timeout"), "{stream}");
    assert_eq!(server.wait(), Some(0));
    let (rows, _) = exported(scratch.path());
    assert_eq!(rows.last().expect("a row")["result"], "timeout");
}

// proves: C-K02, C-K04, AU-13
#[tokio::test]
async fn an_edited_export_is_found_out_by_its_exit_code() {
    let scratch = scratch();
    let server = Server::start(scratch.path()).await;
    let admin = Client::new(&server.url, &server.key("root", "admin"));
    eventually("the tenant's first events are in the chain", async || {
        admin.json("/api/audit").await["events"].as_array().is_some_and(|events| events.len() >= 2)
    })
    .await;
    let file = scratch.path().join("chain.ndjson");
    let name = file.to_str().expect("text");
    run_json(scratch.path(), &["audit", "export", "--out", name]);
    let verify = || run(scratch.path(), &["audit", "verify", "--export", name]).status.code();
    assert_eq!(verify(), Some(0));

    let text = std::fs::read_to_string(&file).expect("text");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.swap(0, 1);
    std::fs::write(&file, lines.join("\n")).expect("written");
    assert_eq!(verify(), Some(1));
    let mut edited: Value = serde_json::from_str(&lines[1]).expect("JSON");
    edited["time"] = json!("2001-01-01T00:00:00.000000Z");
    std::fs::write(&file, edited.to_string()).expect("written");
    assert_eq!(verify(), Some(1));
    std::fs::write(&file, "").expect("written");
    assert_eq!(verify(), Some(3));
    assert_eq!(run(scratch.path(), &["audit", "verify"]).status.code(), Some(2));
}
