//! One test per row of the table in SPEC §4, as far as the rows exist.

use identity::Role;
use mcp_core::error::AdapterError;
use mcp_core::policy::ToolPolicy;
use mcp_core::tool::ToolName;
use serde_json::json;

use crate::world::{Behaviour, TOOL, World};

const SSH: &str = "ssh.run_whitelisted_command";

// proves: RT-15, C-F09
#[tokio::test]
async fn refusals_before_the_call_have_their_own_status() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let cases = [
        ("proxmox.delete_vm", json!({}), "403 write_rejected"),
        ("aws.list_buckets", json!({}), "403 tool_not_in_registry"),
        (TOOL, json!({"surprise": 1}), "400 invalid_arguments"),
        (TOOL, json!({"target_id": 5}), "400 invalid_arguments"),
        (TOOL, json!({"target_id": "nowhere"}), "404 target_not_found"),
        ("proxmox.list_vms", json!({"node": "pve1"}), "404 target_not_found"),
        ("gitea.list_repos", json!({}), "404 target_not_found"),
        (SSH, json!({"command": "uptime"}), "404 target_not_found"),
    ];
    for (tool, args, expected) in cases {
        assert_eq!(operator.invoke(tool, args).await.told(), expected, "{tool}");
    }
    let refused = operator.invoke(TOOL, json!({"surprise": 1})).await.json();
    assert_eq!(refused["field"], "surprise");
    assert_eq!(world.reached(), 0);

    world.directory.set_policy(world.tenant, ToolPolicy::disabling([ToolName::GithubGetRecentCiRuns]));
    assert_eq!(operator.invoke(TOOL, json!({})).await.told(), "403 tool_disabled");
    let tools = operator.get("/api/mcp/tools").await.json();
    let names: Vec<_> = tools["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names.len(), 8);
    assert!(!names.contains(&&json!(TOOL)));
}

// proves: H-04, C-G06, M2-E7, C-G03, C-G08
#[tokio::test]
async fn commands_outside_the_whitelist_are_403_and_written_as_rejected() {
    let world = World::new().await;
    let (operator, admin) = (world.client(Role::Operator).await, world.client(Role::Admin).await);
    let refused = [
        "rm -rf /",
        "systemctl status -Hevil.example",
        "journalctl -n 501",
        "uptime\0",
        "uptime\n",
        "df\t-h",
        "df  -h",
        "journalctl -n \u{0665}\u{0660}",
    ];
    for command in refused {
        let answer = operator.invoke(SSH, json!({"command": command})).await;
        assert_eq!(answer.told(), "403 command_not_whitelisted", "{command:?}");
    }
    let events = admin.get("/api/audit?type=adapter.write_rejected").await.json();
    assert_eq!(events["events"].as_array().expect("events").len(), refused.len());
    assert_eq!(events["events"][0]["body"]["reason"], "command_not_whitelisted");
}

// proves: REQ-024, AD-05, C-N14, GH-05
#[tokio::test]
async fn what_the_upstream_does_has_its_own_status() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let cases = [
        (AdapterError::UpstreamAuth, "502 upstream_auth"),
        (AdapterError::InsufficientScope { permission: "actions:read".into() }, "403 insufficient_scope"),
        (AdapterError::UpstreamRateLimited { retry_after_sec: 9 }, "429 upstream_rate_limited"),
        (AdapterError::Upstream("the upstream is down".into()), "502 upstream_error"),
        (AdapterError::TooLarge, "502 upstream_too_large"),
        (AdapterError::Malformed, "502 upstream_malformed"),
        (AdapterError::TlsUntrusted, "502 tls_untrusted"),
        (AdapterError::TlsPinMismatch, "502 tls_pin_mismatch"),
        (AdapterError::EgressDenied, "502 egress_denied"),
        (AdapterError::Timeout, "504 upstream_timeout"),
        (AdapterError::AgentDisconnected, "502 agent_disconnected"),
        (AdapterError::AgentBusy, "429 agent_busy"),
        (AdapterError::Offline, "404 target_offline"),
        (AdapterError::RejectedByAgent, "403 command_not_whitelisted"),
    ];
    for (error, expected) in cases {
        world.behave(Behaviour::Fail(error));
        let answer = operator.invoke(TOOL, json!({})).await;
        assert_eq!(answer.told(), expected);
        assert!(answer.header("x-audit-receipt").contains(';'), "{expected}");
        assert_eq!(answer.status.as_u16() == 429, !answer.header("retry-after").is_empty(), "{expected}");
    }
    world.add_target(world.tenant, 5, "mirror");
    let ambiguous = operator.invoke(TOOL, json!({})).await;
    assert_eq!(ambiguous.told(), "409 ambiguous_target");
    assert_eq!(ambiguous.json()["candidates"].as_array().expect("candidates").len(), 2);
}

// proves: REQ-019, RT-16, C-E01, C-Q14
#[tokio::test]
async fn call_61_of_a_burst_is_429() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let mut limited = None;
    for n in 0..70 {
        let answer = operator.invoke(TOOL, json!({})).await;
        if answer.status.as_u16() == 429 {
            limited = Some((n, answer));
            break;
        }
        assert_eq!(answer.header("x-ratelimit-limit"), "60");
    }
    let (n, answer) = limited.expect("a limit");
    // The bucket refills a token a second while the calls run.
    assert!((60..=65).contains(&n), "{n}");
    assert_eq!(answer.told(), "429 rate_limited");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.json()["retryAfterSec"], 1);
    assert_eq!(world.reached(), n);
}

// proves: C-N08, C-Q10, C-A07
#[tokio::test]
async fn a_body_is_json_of_a_megabyte_at_most_without_duplicates_or_strangers() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    let send = async |body: &str, content_type: &str| {
        let headers = [("content-type", content_type)];
        operator.send("POST", "/api/mcp/invoke", Some(body.to_owned()), &headers).await.told()
    };
    let json = "application/json";
    assert_eq!(send("{}", "text/plain").await, "415 unsupported_media_type");
    assert_eq!(send("a=b", "application/x-www-form-urlencoded").await, "415 unsupported_media_type");
    assert_eq!(send("", json).await, "400 invalid_request");
    assert_eq!(send("[]", json).await, "400 invalid_request");
    assert_eq!(send(r#"{"tool":"x","tool":"y"}"#, json).await, "400 invalid_request");
    assert_eq!(send(r#"{"tool":"x","args":{"a":1,"a":2}}"#, json).await, "400 invalid_request");
    assert_eq!(send(r#"{"tool":"x","tenant_id":"y"}"#, json).await, "400 invalid_request");
    assert_eq!(send(&" ".repeat(1024 * 1024 + 1), json).await, "413 body_too_large");
    let query = operator.send("POST", "/api/mcp/invoke?wait=maybe", Some("{}".into()), &[]).await;
    assert_eq!(query.told(), "400 invalid_request");
}

// proves: M1-E7, AU-04, C-K15
#[tokio::test]
async fn an_audit_log_that_cannot_be_written_is_503_and_nothing_is_called() {
    let world = World::new().await;
    let operator = world.client(Role::Operator).await;
    assert_eq!(operator.invoke(TOOL, json!({})).await.told(), "200");
    let admin = world.database.admin_client().await;
    admin.batch_execute("revoke insert on coreci.audit_log from coreci_audit").await.expect("revoked");
    let answer = operator.invoke(TOOL, json!({})).await;
    assert_eq!(answer.told(), "503 audit_unavailable");
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(world.reached(), 1);
    admin.batch_execute("grant insert on coreci.audit_log to coreci_audit").await.expect("granted");
    crate::world::eventually(async || operator.invoke(TOOL, json!({})).await.status.as_u16() == 200).await;
}
