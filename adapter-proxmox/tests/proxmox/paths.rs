//! Whatever the arguments are, the fake sees only GET, and only paths of the table.

use mcp_core::error::AdapterError;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::world::Pve;

/// Arguments of the right form, of nearly the right form, and of no form.
fn arguments() -> impl Strategy<Value = Value> {
    let node = prop_oneof![
        "[a-zA-Z0-9][a-zA-Z0-9-]{0,8}[a-zA-Z0-9]",
        "[a-z0-9./%?#;\\\\-]{0,16}",
        "\\PC{0,16}",
        Just("pve/../../access/ticket".to_owned()),
        Just("pve%2f..%2faccess".to_owned()),
        Just("pve\r\nx-injected: 1".to_owned()),
        Just("pve\u{2215}qemu".to_owned()),
    ];
    let vmid = prop_oneof![
        (100_u64..200).prop_map(|vmid| json!(vmid)),
        any::<u64>().prop_map(|vmid| json!(vmid)),
        any::<i64>().prop_map(|vmid| json!(vmid)),
        any::<f64>().prop_map(|vmid| json!(vmid)),
        "[0-9/.]{0,6}".prop_map(|vmid| json!(vmid)),
    ];
    (node, vmid, any::<bool>()).prop_map(|(node, vmid, with_vmid)| {
        let mut args = json!({"node": node});
        if with_vmid {
            args["vmid"] = vmid;
        }
        args
    })
}

fn is_of_the_table(path: &str) -> bool {
    let node = |text: &str| {
        !text.is_empty()
            && text.len() <= 63
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let vmid = |text: &str| text.parse().is_ok_and(|vmid: u32| (100..=999_999_999).contains(&vmid));
    let Some(rest) = path.strip_prefix("/api2/json/") else { return false };
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["nodes"] | ["version"] | ["access", "permissions"] => true,
        ["nodes", name, "status" | "qemu" | "lxc"] => node(name),
        ["nodes", name, "qemu" | "lxc", number, "status", "current"] => node(name) && vmid(number),
        _ => false,
    }
}

// proves: C-F02, C-F04, C-F05
#[test]
fn no_argument_makes_another_path() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let pve = runtime.block_on(Pve::serving::<&str>([]));
    let mut runner = TestRunner::new(Config { cases: 96, failure_persistence: None, ..Config::default() });
    let tool =
        prop::sample::select(vec!["proxmox.list_vms", "proxmox.get_vm_status", "proxmox.get_node_metrics"]);
    let outcome = runner.run(&(tool, arguments()), |(tool, args)| {
        let refused = runtime.block_on(pve.call(tool, args)).expect_err("a fake without pages");
        prop_assert!(matches!(refused, AdapterError::NotFound(_) | AdapterError::Upstream(_)), "{refused:?}");
        Ok(())
    });
    outcome.expect("no other path");
    let paths = pve.paths();
    assert!(!paths.is_empty());
    for path in paths {
        assert!(is_of_the_table(&path), "{path}");
    }
    pve.saw_only_token_reads();
}
