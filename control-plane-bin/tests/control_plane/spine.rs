//! The spine with a real agent: every stage of SPEC §4 once, over HTTP, to a command on this machine and back.

use serde_json::{Value, json};

use crate::agent::agent;
use crate::server::{Client, Server, eventually, scratch};
use crate::stalling_agent::StallingAgent;

// proves: S-02, H-09, H-12, H-20, C-G01, C-G16, C-M18, G-XL, T-04
#[tokio::test]
async fn a_call_travels_and_every_refusal_stops_where_it_should() {
    let scratch = scratch();
    let server = Server::start(&scratch.path().join("server")).await;
    let admin = Client::new(&server.url, &server.key("root", "admin"));
    let operator = Client::new(&server.url, &server.key("op", "operator"));
    let viewer = Client::new(&server.url, &server.key("view", "viewer"));
    let agent = agent(&admin, &server.url, &scratch.path().join("agent")).await;

    let (status, result) = operator.call("uptime").await;
    assert_eq!(status, 200, "{result}");
    assert!(result["structuredContent"]["stdout"].as_str().expect("text").contains("load average"));
    // A unit that does not exist is an answer with an exit code, not a failure.
    let (status, result) = operator.call("systemctl status no-such-unit-anywhere").await;
    assert_eq!(status, 200, "{result}");
    assert_ne!(result["structuredContent"]["exitCode"], 0);
    let (status, _) = viewer.call("uptime").await;
    assert_eq!(status, 403);
    let (status, refused) = operator.call("rm -rf /").await;
    assert_eq!((status, &refused["error"]), (403, &json!("command_not_whitelisted")));

    // Accepted, read to its end, read again later and from the middle; not by anybody else.
    let body = json!({"tool": "ssh__run_whitelisted_command", "target_id": "this-host", "args": {"command": "df -h"}});
    let accepted = operator.post("/api/mcp/invoke", body).await;
    assert_eq!(accepted.status().as_u16(), 202);
    let accepted: Value = accepted.json().await.expect("JSON");
    let path = accepted["streamUrl"].as_str().expect("a path");
    let call = accepted["correlationId"].as_str().expect("an id");
    for _ in 0..2 {
        let text = operator.get(path).await.text().await.expect("a stream");
        let ids: Vec<_> = text.lines().filter(|line| line.starts_with("id: ")).collect();
        assert_eq!(ids, [format!("id: {call}-0"), format!("id: {call}-1")], "{text}");
        assert!(text.contains("event: tool_result") && text.contains("event: done"));
    }
    assert_eq!(admin.get(path).await.status().as_u16(), 404);

    let rows = admin.json("/api/audit?type=adapter.capability_invoked").await;
    let finished = &rows["events"][0]["body"];
    assert_eq!(finished["facts"]["exitCode"], 0);
    assert_eq!(finished["facts"]["stdoutSha256"].as_str().expect("a digest").len(), 64);
    assert_eq!(rows["events"][1]["body"]["args"]["command"], "df -h");

    agent.stop.cancel();
    agent.running.await.expect("joined");
    eventually("the target is offline", async || {
        operator.call("uptime").await.1["error"] == "target_offline"
    })
    .await;
    assert_eq!(admin.json("/api/targets").await["targets"][0]["status"], "yellow");
    assert!(!server.log().contains("cck_") && !server.log().contains("cce_"));
    assert_eq!(server.terminate(), Some(0));
}

// proves: C-M07, REQ-011
#[tokio::test]
async fn a_revoked_agent_is_gone_within_five_seconds() {
    let scratch = scratch();
    let server = Server::start(&scratch.path().join("server")).await;
    let admin = Client::new(&server.url, &server.key("root", "admin"));
    let _agent = agent(&admin, &server.url, &scratch.path().join("agent")).await;
    let revoked = std::time::Instant::now();
    assert_eq!(admin.post("/api/targets/this-host/revoke", json!({})).await.status().as_u16(), 204);
    let status_file = scratch.path().join("agent/status.json");
    eventually("the agent knows", async || {
        std::fs::read_to_string(&status_file).is_ok_and(|text| text.contains("refused"))
    })
    .await;
    assert!(revoked.elapsed().as_secs() < 5);
    let (status, refused) = admin.call("uptime").await;
    assert_eq!((status, &refused["error"]), (404, &json!("target_not_found")));
}

// proves: H-19
#[tokio::test]
async fn readiness_health_and_metrics_tell_how_it_is() {
    let scratch = scratch();
    let server = Server::start(scratch.path()).await;
    let anyone = Client::new(&server.url, "none");
    assert_eq!(anyone.get("/livez").await.status().as_u16(), 200);
    eventually("it is ready", async || anyone.get("/readyz").await.status().as_u16() == 200).await;
    let ready = anyone.json("/readyz").await;
    assert_eq!(ready["checks"], json!({"database": true, "audit": true, "lease": true, "serving": true}));
    assert_eq!(anyone.get("/metrics").await.status().as_u16(), 404, "not on the public listener");
}

// proves: H-04, H-05, M2-E7, C-G02, C-G04, C-G05, C-G06, C-G07, C-G10
#[tokio::test]
async fn a_refused_command_never_reaches_the_agent() {
    let scratch = scratch();
    let server = Server::start(scratch.path()).await;
    let admin = Client::new(&server.url, &server.key("root", "admin"));
    let poison = StallingAgent::enrol(&admin, "poison").await;
    let mut commands = poison.connect(&server.url).await;
    let refused = [
        "rm -rf /",
        "systemctl status -Hevil.example",
        "systemctl status 1234",
        "journalctl -n 501",
        "uptime\0",
        "uptime\n",
        "df\t-h",
        "df  -h",
        "journalctl -n \u{0665}\u{0660}",
    ];
    for command in refused {
        let (status, body) = admin.call(command).await;
        assert_eq!((status, &body["error"]), (403, &json!("command_not_whitelisted")), "{command:?}");
    }
    let rows = admin.json("/api/audit?type=adapter.write_rejected").await;
    assert_eq!(rows["events"].as_array().expect("events").len(), refused.len());
    // Whatever was sent came in order; so if the next good command is the first to arrive, no bad one ever did.
    let body = json!({"tool": "ssh.run_whitelisted_command", "args": {"command": "uptime"}});
    assert_eq!(admin.post("/api/mcp/invoke", body).await.status().as_u16(), 202);
    assert_eq!(commands.recv().await.as_deref(), Some("uptime"));
}
