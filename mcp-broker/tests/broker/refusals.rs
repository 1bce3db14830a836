//! Calls that are refused: what they are told, what they write, and that nothing is reached.

use mcp_core::audit::EventType;
use mcp_core::policy::ToolPolicy;
use mcp_core::principal::{Action, Grants, Scope};
use mcp_core::tool::ToolName;
use serde_json::json;

use crate::world::{TENANT, World, code};

// proves: S-02, B-05, C-D02
#[tokio::test(start_paused = true)]
async fn the_stages_come_in_the_order_of_the_spec() {
    // Each call has every fault from its stage on; the first stage in order answers.
    let mut world = World::new();
    world.grants = Grants::none();
    assert_eq!(world.call("proxmox.delete_vm", json!({"bad": 1})).await, "forbidden");

    world.grants = Grants::new([Action::ToolsInvoke]);
    for _ in 0..60 {
        assert_eq!(world.call("proxmox.delete_vm", json!({"bad": 1})).await, "write_rejected");
    }
    assert_eq!(world.call("proxmox.delete_vm", json!({"bad": 1})).await, "rate_limited");
    assert_eq!(world.reached(), 0);
}

// proves: RT-15, T-14, REQ-016, REQ-018, INV-7, B-02, B-16, C-F01, AU-09
#[tokio::test(start_paused = true)]
async fn every_refusal_is_written_as_the_spec_says_and_reaches_nothing() {
    let rejected = EventType::WriteRejected;
    let invoked = EventType::CapabilityInvoked;
    let cases = [
        ("proxmox.delete_vm", json!({}), "write_rejected", rejected),
        ("proxmox.list_vms\0", json!({}), "tool_not_in_registry", rejected),
        ("aws.list", json!({}), "tool_not_in_registry", rejected),
        ("ssh.run_whitelisted_command", json!({"command": "rm -rf /"}), "command_not_whitelisted", rejected),
        ("ssh.run_whitelisted_command", json!({"command": 7}), "invalid_arguments", invoked),
        ("github.list_repos", json!({"owner": "x"}), "invalid_arguments", invoked),
        ("proxmox.list_vms", json!({"node": "pve1"}), "target_not_found", invoked),
        ("github.list_repos", json!({"target_id": "nowhere"}), "target_not_found", invoked),
    ];
    for (tool, args, expected, event) in cases {
        let world = World::new();
        assert_eq!(world.call(tool, args).await, expected, "{tool}");
        assert_eq!(world.audited(), [(event, "refused".to_owned(), expected.to_owned())], "{tool}");
        assert_eq!(world.reached(), 0, "{tool}");
    }
}

// proves: T-15, C-D06
#[tokio::test(start_paused = true)]
async fn a_tool_that_is_off_is_neither_listed_nor_callable() {
    let world = World::new();
    world.directory.set_policy(TENANT, ToolPolicy::disabling([ToolName::GithubListRepos]));

    let tools = world.broker.tools(&world.principal()).await.expect("a list");
    assert_eq!(tools.len(), 8);
    assert_eq!(world.call("github.list_repos", json!({})).await, "tool_disabled");
    let rejected = (EventType::WriteRejected, "refused".to_owned(), "tool_disabled".to_owned());
    assert_eq!(world.audited(), [rejected]);
}

// proves: REQ-024
#[tokio::test(start_paused = true)]
async fn one_target_is_used_and_several_are_offered() {
    let mut world = World::new();
    assert_eq!(world.call("github.list_repos", json!({})).await, "ok");

    let second = world.add_target(5, "mirror");
    assert_eq!(world.call("github.list_repos", json!({})).await, "ambiguous_target");
    assert_eq!(world.call("github.list_repos", json!({"target_id": "mirror"})).await, "ok");
    assert_eq!(world.call_on("github.list_repos", Some(&second.to_string()), json!({})).await, "ok");
    let both = world.call_on("github.list_repos", Some("forge"), json!({"target_id": "mirror"})).await;
    assert_eq!(both, "invalid_arguments");

    // What lies outside a key's narrowing is not there: neither to be used nor to be offered.
    world.grants = world.grants.clone().narrowed_to_targets(Scope::Only([second].into()));
    assert_eq!(world.call("github.list_repos", json!({})).await, "ok");
    assert_eq!(world.call("github.list_repos", json!({"target_id": "forge"})).await, "target_not_found");
}

// proves: C-D01
#[tokio::test(start_paused = true)]
async fn a_denied_role_is_written_once_a_minute() {
    let mut world = World::new();
    world.grants = Grants::none();
    for _ in 0..5 {
        assert_eq!(world.call("github.list_repos", json!({})).await, "forbidden");
    }
    assert_eq!(world.audited().len(), 1);
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(world.call("github.list_repos", json!({})).await, "forbidden");
    let denied: Vec<_> = world.audited().into_iter().map(|(event, ..)| event).collect();
    assert_eq!(denied, [EventType::RbacDenied; 2]);
}

// proves: S-07, INV-4, M1-E7, AU-04, B-11
#[tokio::test(start_paused = true)]
async fn nothing_is_called_while_nothing_can_be_written() {
    let world = World::new();
    world.audit.set_broken(true);
    assert_eq!(world.call("github.list_repos", json!({})).await, "audit_unavailable");
    assert_eq!(world.call("proxmox.delete_vm", json!({})).await, "audit_unavailable");
    assert_eq!(world.reached(), 0);
}

// proves: C-E10, B-11
#[tokio::test(start_paused = true)]
async fn limits_write_nothing() {
    let world = World::with_in_flight_limit(0);
    let started =
        world.broker.start(world.request("github.list_repos", None, json!({})), mcp_broker::StreamMode::None);
    assert_eq!(code(started.await), "in_flight_limit");
    assert_eq!(world.audited(), []);
}
