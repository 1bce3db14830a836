//! One small cluster, as the releases 6 to 9 tell about it.

use adapter_proxmox::ProxmoxOptions;
use egress::testing::Reply;
use mcp_core::check::{StepName, StepStatus};
use serde_json::{Map, Value, json};

use crate::world::{Pve, fixture, newest};

fn releases() -> [(&'static str, Vec<(String, Reply)>); 4] {
    [
        ("6.4-15", fixture(include_str!("fixtures/pve6.json"))),
        ("7.4-18", fixture(include_str!("fixtures/pve7.json"))),
        ("8.4.1", fixture(include_str!("fixtures/pve8.json"))),
        ("9.0.10", newest()),
    ]
}

async fn answers(tool: &str, args: Value) -> Vec<Map<String, Value>> {
    let mut answers = Vec::new();
    for (_, pages) in releases() {
        let pve = Pve::serving(pages).await;
        answers.push(pve.call(tool, args.clone()).await.expect("an answer"));
        pve.saw_only_token_reads();
    }
    answers
}

// proves: T-01, P-08, AD-08, REQ-020, C-F02
#[tokio::test]
async fn every_release_lists_the_same_guests() {
    let expected = json!({
        "vms": [
            {"vmid": 101, "name": "mail", "type": "qemu", "status": "running", "cpu": 0.25, "cpus": 2.0,
             "mem": 1_200_000_000, "maxmem": 4_294_967_296_u64, "uptime": 7200, "template": false, "tags": []},
            {"vmid": 102, "name": "dns", "type": "lxc", "status": "running", "cpu": 0.01, "cpus": 1.0,
             "mem": 41_000_000, "maxmem": 536_870_912, "uptime": 7100, "template": false, "tags": ["prod", "dns"]},
            {"vmid": 9000, "name": "debian-base", "type": "qemu", "status": "stopped", "cpu": 0.0, "cpus": 1.0,
             "mem": 0, "maxmem": 1_073_741_824, "uptime": 0, "template": true, "tags": []},
        ],
        "truncated": false,
        "omitted": 0,
    });
    for answer in answers("proxmox.list_vms", json!({"node": "pve1"})).await {
        assert_eq!(Value::Object(answer), expected);
    }
}

// proves: T-02, P-08, AD-08
#[tokio::test]
async fn every_release_shows_the_same_machine() {
    for answer in answers("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 101})).await {
        let shown =
            ["vmid", "type", "status", "qmpstatus", "ha_managed", "uptime", "cpu"].map(|key| &answer[key]);
        assert_eq!(
            json!(shown),
            json!([101, "qemu", "running", "paused", true, 7200, 0.25]),
            "a paused machine is told from a running one"
        );
    }
}

// proves: T-02, P-08
#[tokio::test]
async fn every_release_shows_the_same_container_without_being_told_that_it_is_one() {
    for answer in answers("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 102})).await {
        let shown = ["vmid", "type", "name", "ha_managed"].map(|key| &answer[key]);
        assert_eq!(json!(shown), json!([102, "lxc", "dns", false]));
    }
}

// proves: T-03, P-08, AD-08
#[tokio::test]
async fn every_release_shows_the_same_metrics() {
    for mut answer in answers("proxmox.get_node_metrics", json!({"node": "pve1"})).await {
        let version = answer.remove("pveversion").expect("a version");
        assert!(version.as_str().is_some_and(|version| version.starts_with("pve-manager/")));
        assert!(answer.remove("kversion").is_some());
        assert_eq!(
            Value::Object(answer),
            json!({
                "node": "pve1", "cpu": 0.0725, "cpus": 8, "loadavg": [0.58, 0.42, 0.4],
                "memory_used": 9_000_000_000_u64, "memory_total": 16_000_000_000_u64,
                "rootfs_used": 11_000_000_000_u64, "rootfs_total": 96_000_000_000_u64, "uptime": 864_000,
            })
        );
    }
}

// proves: P-04, P-05, P-07, P-08, REQ-025
#[tokio::test]
async fn every_release_passes_the_check_and_its_version_is_kept() {
    for (version, pages) in releases() {
        let pve = Pve::serving(pages).await;
        let report = pve.check(ProxmoxOptions::default()).await;
        let steps: Vec<_> = report.steps.iter().map(|step| (step.step, step.status)).collect();
        let all = [
            StepName::Egress,
            StepName::Dns,
            StepName::Tls,
            StepName::Auth,
            StepName::Permissions,
            StepName::Version,
        ];
        assert_eq!(steps, all.map(|step| (step, StepStatus::Ok)), "{report:?}");
        assert_eq!(report.code, None);
        assert_eq!(report.facts["version"], version);
        assert_eq!(report.facts["nodes"], json!(["pve1", "pve2"]));
        assert_eq!(pve.paths(), ["/api2/json/version", "/api2/json/access/permissions", "/api2/json/nodes"]);
        pve.saw_only_token_reads();
    }
}

// proves: AD-08, RT-12
#[tokio::test]
async fn results_fit_the_schemas_that_clients_are_shown() {
    let pve = Pve::serving(newest()).await;
    for (tool, args) in [
        ("proxmox.list_vms", json!({"node": "pve1"})),
        ("proxmox.get_vm_status", json!({"node": "pve1", "vmid": 101})),
        ("proxmox.get_node_metrics", json!({"node": "pve1"})),
    ] {
        let answer = Value::Object(pve.call(tool, args).await.expect("an answer"));
        let definition =
            mcp_core::tool::catalogue().iter().find(|t| t.name.as_str() == tool).expect("a tool");
        let schema = jsonschema::validator_for(&definition.output_schema).expect("a schema");
        assert!(schema.is_valid(&answer), "{tool}: {answer}");
    }
}
