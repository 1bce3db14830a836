//! Against fakepve: guests 101 and 110 are virtual machines and 105 is a container, all on `pve1`; `pve2` is down.

use serde_json::{Value, json};

use crate::installation::{Added, Installation, peer};

/// A token with a good name and the secret of another.
const WRONG_SECRET: &str = "reader@pve!coreci=00000000-0000-4000-8000-000000000000";

fn add(control_plane: &Installation, token: &str, more: &[&str]) -> Added {
    control_plane.add("proxmox", &peer("PVE_URL"), token, more)
}

async fn with_reader() -> Installation {
    let control_plane = Installation::start().await;
    let pinned = ["--pin", &peer("PVE_SHA256")];
    let added = add(&control_plane, &peer("PVE_TOKEN_READER"), &pinned);
    assert_eq!(added.code, Some(0), "{}", added.said);
    control_plane
}

// proves: AD-02, AD-06, X2-06, P-04, P-05, P-07, AU-06
#[tokio::test]
async fn the_certificate_is_confirmed_by_a_person_and_the_steps_are_told_one_by_one() {
    let control_plane = Installation::start().await;
    let (token, fingerprint) = (peer("PVE_TOKEN_READER"), peer("PVE_SHA256"));

    let unknown = add(&control_plane, &token, &[]);
    assert_eq!((unknown.code, &unknown.report["error"]), (Some(5), &json!("tls_untrusted")));
    assert_eq!(unknown.report["fingerprint"], json!(fingerprint));
    assert!(unknown.said.contains(&format!("--pin {fingerprint}")), "{}", unknown.said);
    assert_eq!(unknown.steps(), ["egress ok", "dns ok", "tls fail"]);

    let other = add(&control_plane, &token, &["--pin", &"ab".repeat(32)]);
    assert_eq!((other.code, &other.report["error"]), (Some(5), &json!("tls_pin_mismatch")));
    assert_eq!(other.report["fingerprint"], json!(fingerprint));
    assert_eq!(control_plane.json(&["adapter", "list"]), json!([]));

    let added = add(&control_plane, &token, &["--pin", &fingerprint]);
    assert_eq!(added.code, Some(0), "{}", added.said);
    let steps = ["egress ok", "dns ok", "tls ok", "auth ok", "permissions ok", "version ok"];
    assert_eq!(added.steps(), steps);
    let listed = control_plane.json(&["adapter", "list"]);
    assert_eq!(listed[0]["status"], "ok");
    assert_eq!(listed[0]["facts"]["version"], "9.0.10");
    assert_eq!(listed[0]["facts"]["nodes"], json!(["pve1", "pve2"]));
    let checked = control_plane.json(&["adapter", "test", "proxmox"]);
    assert_eq!(checked["ok"], true);
    assert_eq!(control_plane.events("adapter.configured").await.len(), 1);
}

// proves: T-01, T-02, T-03, REQ-020
#[tokio::test]
async fn guests_of_both_kinds_and_nodes_are_read() {
    let control_plane = with_reader().await;

    let list = control_plane.call("proxmox.list_vms", &json!({"node": "pve1"}));
    let row = |vm: &Value| (vm["vmid"].clone(), vm["type"].clone(), vm["name"].clone());
    let rows: Vec<_> = list["vms"].as_array().expect("rows").iter().map(row).collect();
    let wanted = [(101, "qemu", "template"), (105, "lxc", "proxy"), (110, "qemu", "db")];
    assert_eq!(rows, wanted.map(|(vmid, kind, name)| (json!(vmid), json!(kind), json!(name))));
    assert_eq!(list["vms"][0]["template"], true);
    assert_eq!(list["vms"][2]["tags"], json!(["prod", "sql"]));
    assert_eq!(list["truncated"], false);

    for (vmid, kind, name, status) in [
        (101, "qemu", "template", "stopped"),
        (105, "lxc", "proxy", "running"),
        (110, "qemu", "db", "running"),
    ] {
        let guest = control_plane.call("proxmox.get_vm_status", &json!({"node": "pve1", "vmid": vmid}));
        assert_eq!([&guest["type"], &guest["name"], &guest["status"]], [kind, name, status]);
    }

    let node = control_plane.call("proxmox.get_node_metrics", &json!({"node": "pve1"}));
    assert_eq!(node["node"], "pve1");
    assert!(node["uptime"].is_u64() && node["memory_total"].is_u64() && node["cpu"].is_number(), "{node}");
}

// proves: AD-05
#[tokio::test]
async fn what_is_missing_and_what_is_down_are_told_apart() {
    let control_plane = with_reader().await;
    for (tool, args, code, words) in [
        ("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 999}), 4, "no VM or container 999"),
        ("proxmox.list_vms", json!({"node": "pve9"}), 4, "no node pve9"),
        ("proxmox.get_vm_status", json!({"node": "pve9", "vmid": 110}), 4, "no node pve9"),
        ("proxmox.get_node_metrics", json!({"node": "pve9"}), 4, "no node pve9"),
        ("proxmox.list_vms", json!({"node": "pve2"}), 1, "pve2 is offline"),
        ("proxmox.get_vm_status", json!({"node": "pve2", "vmid": 110}), 1, "pve2 is offline"),
        ("proxmox.get_node_metrics", json!({"node": "pve2"}), 1, "pve2 is offline"),
    ] {
        let (found, said) = control_plane.refused(tool, &args);
        assert_eq!(found, Some(code), "{tool} {args}: {said}");
        assert!(said.contains(words), "{tool} {args}: {said}");
    }
    assert_eq!(control_plane.events("adapter.write_rejected").await, [] as [Value; 0]);
}

// proves: REQ-025, X2-05, AD-02, AU-07, INV-3
#[tokio::test]
async fn a_token_that_may_not_read_or_may_do_more_is_refused_by_name_and_nothing_is_kept() {
    let control_plane = Installation::start().await;
    let kept = control_plane.secrets();
    let pinned = ["--pin", &peer("PVE_SHA256")];
    let reader = peer("PVE_TOKEN_READER");
    let cases = [
        (peer("PVE_TOKEN_WRITER"), "permissions fail", "pve_overprivileged", "VM.PowerMgmt on /"),
        (peer("PVE_TOKEN_ROOT"), "permissions fail", "pve_overprivileged", "Permissions.Modify on /"),
        (peer("PVE_TOKEN_EMPTY"), "permissions fail", "pve_role_missing", "no permissions at all"),
        (WRONG_SECRET.to_owned(), "auth fail", "upstream_auth", "refused the configured credential"),
    ];
    for (token, step, error, words) in &cases {
        let refused = add(&control_plane, token, &pinned);
        assert_eq!((refused.code, &refused.report["error"]), (Some(5), &json!(error)));
        assert_eq!(refused.steps().last().map(String::as_str), Some(*step));
        assert!(refused.said.contains(words), "{}", refused.said);
        assert_eq!(control_plane.json(&["adapter", "list"]), json!([]));
    }
    assert_eq!(control_plane.secrets(), kept);
    assert_eq!(control_plane.events("adapter.test_connection.failed").await.len(), cases.len());
    assert_eq!(control_plane.events("adapter.configured").await, [] as [Value; 0]);

    // An admin may take on what is too much, and then it is said each time.
    let option = ["--option", "allow_overprivileged=true"];
    let writer = &cases[0].0;
    let accepted = add(&control_plane, writer, &[&pinned[..], &option[..]].concat());
    assert_eq!(accepted.code, Some(0), "{}", accepted.said);
    assert!(accepted.steps().contains(&"permissions warn".to_owned()), "{:?}", accepted.steps());

    let audit = control_plane.admin.get("/api/audit").await.text().await.expect("text");
    let log = control_plane.server.log();
    for token in cases.iter().map(|case| &case.0).chain([&reader]) {
        let (_, secret) = token.rsplit_once('=').expect("a secret");
        assert!(!audit.contains(secret) && !log.contains(secret));
    }
}
