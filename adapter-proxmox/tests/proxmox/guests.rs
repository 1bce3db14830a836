//! Lists that are empty, long or odd, and guests that are not where they are looked for.

use egress::testing::Reply;
use mcp_core::error::AdapterError;
use serde_json::json;

use crate::world::{Pve, body, data, refusal};

const PERMISSIONS: &str = "/api2/json/access/permissions";
const NODES: &str = "/api2/json/nodes";
const QEMU: &str = "/api2/json/nodes/pve1/qemu";
const LXC: &str = "/api2/json/nodes/pve1/lxc";
const MACHINE: &str = "/api2/json/nodes/pve1/qemu/100/status/current";
const CONTAINER: &str = "/api2/json/nodes/pve1/lxc/100/status/current";

fn no_conf() -> Reply {
    refusal(500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist")
}

fn two_nodes() -> Reply {
    data(json!([{"node": "pve2", "status": "offline"}, {"node": "pve1", "status": "online"}]))
}

// proves: T-01, REQ-020
#[tokio::test]
async fn an_empty_list_says_when_the_token_may_be_why() {
    for (permissions, expected) in [
        (data(json!({"/": {"Sys.Audit": 1, "VM.Audit": 1}})), None),
        (data(json!({"/": {"Sys.Audit": 1}})), Some("lacks VM.Audit")),
        (data(json!({})), Some("lacks VM.Audit")),
        (data(json!({"/vms/200": {"VM.Audit": 1}})), Some("for some guests only")),
        (refusal(500, "no quorum"), Some("could not be read")),
    ] {
        let pve =
            Pve::serving([(QEMU, data(json!([]))), (LXC, data(json!([]))), (PERMISSIONS, permissions)]).await;
        let answer = pve.call("proxmox.list_vms", json!({"node": "pve1"})).await.expect("a list");
        assert_eq!((&answer["vms"], &answer["truncated"]), (&json!([]), &json!(false)));
        let warning = answer.get("warning").and_then(|warning| warning.as_str());
        assert_eq!(warning.is_some(), expected.is_some(), "{warning:?}");
        assert!(warning.unwrap_or_default().contains(expected.unwrap_or_default()), "{warning:?}");
    }
}

#[tokio::test]
async fn a_list_with_guests_costs_no_look_at_the_permissions() {
    let pve = Pve::serving([(QEMU, data(json!([{"vmid": 100}]))), (LXC, data(json!([])))]).await;
    pve.call("proxmox.list_vms", json!({"node": "pve1"})).await.expect("a list");
    let mut paths = pve.paths();
    paths.sort();
    assert_eq!(paths, [LXC, QEMU]);
}

// proves: C-N13
#[tokio::test]
async fn a_hundred_thousand_rows_become_a_short_list_that_says_so() {
    let rows: Vec<_> = (0..100_000_u32).rev().map(|at| json!({"vmid": 100 + at})).collect();
    let pve = Pve::serving([(QEMU, data(json!(rows))), (LXC, data(json!([{"vmid": 99_999_999}])))]).await;
    let answer = pve.call("proxmox.list_vms", json!({"node": "pve1"})).await.expect("a list");
    let vms = answer["vms"].as_array().expect("rows");
    assert_eq!((vms.len(), &vms[0]["vmid"]), (5000, &json!(100)));
    assert_eq!((&answer["truncated"], &answer["omitted"]), (&json!(true), &json!(95_001)));
    assert!(answer["hint"].is_string());
}

// proves: C-N13, P-03
#[tokio::test]
async fn success_without_data_is_malformed() {
    let everywhere = |page: &Reply| {
        ["/api2/json/nodes/pve1/status", QEMU, LXC, MACHINE, CONTAINER].map(|path| (path, page.clone()))
    };
    for page in [
        body(""),
        body("null"),
        body("{}"),
        body(r#"{"data":null}"#),
        body(r#"{"data":"x"}"#),
        body(r#"{"data":[{"name":"without number"}]}"#),
        body(r#"{"data":{"unrelated":1}}"#),
        body("<!DOCTYPE html><title>Sign in</title>"),
        body(b"{\"data\":[{\"vmid\":100,\"name\":\"\xff\"}]}"),
        body(format!("{{\"data\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000))),
        body(r#"{"data":[{"vmid":100}"#),
    ] {
        let pve = Pve::serving(everywhere(&page)).await;
        for (tool, args) in [
            ("proxmox.list_vms", json!({"node": "pve1"})),
            ("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 100})),
            ("proxmox.get_node_metrics", json!({"node": "pve1"})),
        ] {
            assert_eq!(pve.call(tool, args).await.err(), Some(AdapterError::Malformed), "{tool} {page:?}");
        }
    }
}

// proves: T-02
#[tokio::test]
async fn a_guest_that_is_not_on_the_node_is_not_found() {
    let pve = Pve::serving([(MACHINE, no_conf()), (CONTAINER, no_conf()), (NODES, two_nodes())]).await;
    let refused = pve.call("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 100})).await;
    let Err(AdapterError::NotFound(message)) = refused else { panic!("{refused:?}") };
    assert!(message.contains("no VM or container 100 on node pve1"), "{message}");
}

#[tokio::test]
async fn a_machine_that_fails_is_not_reported_as_missing() {
    let broken = refusal(500, "got timeout");
    let pve = Pve::serving([(MACHINE, broken), (CONTAINER, no_conf()), (NODES, two_nodes())]).await;
    let refused = pve.call("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 100})).await;
    assert!(matches!(refused, Err(AdapterError::Upstream(_))), "{refused:?}");
}

// proves: C-N14
#[tokio::test]
async fn a_guest_that_the_token_may_not_see_names_the_privilege() {
    let forbidden = refusal(403, "Permission check failed (/vms/100, VM.Audit)");
    let pve = Pve::serving([(MACHINE, forbidden)]).await;
    let refused = pve.call("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 100})).await;
    let permission = "VM.Audit on /vms/100".to_owned();
    assert_eq!(refused.err(), Some(AdapterError::InsufficientScope { permission }));
    assert_eq!(pve.paths(), [MACHINE], "a refusal is not tried again");
}
