//! The check of a configuration, step by step.

use adapter_proxmox::ProxmoxOptions;
use egress::testing::Reply;
use mcp_core::check::{CheckReport, StepName, StepStatus};
use mcp_core::error::ErrorCode;
use mcp_core::secret::SecretValue;
use serde_json::json;

use crate::world::{Pve, body, data, newest, refusal};

const VERSION: &str = "/api2/json/version";
const PERMISSIONS: &str = "/api2/json/access/permissions";
const NODES: &str = "/api2/json/nodes";

async fn pve(permissions: Reply) -> Pve {
    let pve = Pve::serving(newest()).await;
    pve.server.on(PERMISSIONS, permissions);
    pve
}

fn last(report: &CheckReport) -> (StepName, StepStatus, Option<&'static str>) {
    let step = report.steps.last().expect("a step");
    (step.step, step.status, report.code.map(ErrorCode::as_str))
}

// proves: REQ-025, X2-05
#[tokio::test]
async fn a_token_that_may_write_is_refused_naming_each_privilege() {
    let pve = pve(data(json!({
        "/": {"Sys.Audit": 1, "VM.Audit": 1, "VM.PowerMgmt": 1},
        "/storage/local": {"Datastore.Allocate": 0},
    })))
    .await;
    let report = pve.check(ProxmoxOptions::default()).await;
    assert_eq!(last(&report), (StepName::Permissions, StepStatus::Fail, Some("pve_overprivileged")));
    let step = report.steps.last().expect("a step");
    assert!(
        step.message.contains("Datastore.Allocate on /storage/local; VM.PowerMgmt on /"),
        "{}",
        step.message
    );
    assert!(step.fix.is_some());
    assert_eq!(pve.paths(), [VERSION, PERMISSIONS]);

    let accepted = pve.check(ProxmoxOptions { allow_overprivileged: true }).await;
    assert!(accepted.passed());
    assert_eq!((accepted.status(), accepted.code), (StepStatus::Warn, None));
    assert_eq!(
        accepted.facts["excess_privileges"],
        json!(["Datastore.Allocate on /storage/local", "VM.PowerMgmt on /"])
    );
}

// proves: REQ-025, X2-05
#[tokio::test]
async fn a_token_that_cannot_read_is_refused_naming_what_is_missing() {
    for (permissions, says) in [
        (json!({}), "no permissions"),
        (json!({"/": {"Sys.Audit": 1}}), "VM.Audit"),
        (json!({"/": {"VM.Audit": 1}}), "Sys.Audit"),
        (json!({"/storage": {"Datastore.Audit": 1}}), "Sys.Audit (for nodes) and VM.Audit (for guests)"),
    ] {
        let report = pve(data(permissions)).await.check(ProxmoxOptions::default()).await;
        assert_eq!(last(&report), (StepName::Permissions, StepStatus::Fail, Some("pve_role_missing")));
        let message = &report.steps.last().expect("a step").message;
        assert!(message.contains(says), "{message}");
    }
}

// proves: P-03, P-04
#[tokio::test]
async fn a_bad_token_fails_the_step_that_presents_it() {
    let pve = Pve::serving([(VERSION, refusal(401, "invalid token value!").no_close_notify())]).await;
    let report = pve.check(ProxmoxOptions::default()).await;
    assert_eq!(last(&report), (StepName::Auth, StepStatus::Fail, Some("upstream_auth")));
    assert_eq!(report.steps.len(), 4);
}

#[tokio::test]
async fn a_text_that_is_no_token_is_never_sent() {
    let pve = pve(data(json!({}))).await;
    let report =
        pve.check_with(ProxmoxOptions::default(), &SecretValue::new("hunter2-canary".to_owned())).await;
    assert_eq!(last(&report), (StepName::Auth, StepStatus::Fail, Some("upstream_auth")));
    assert!(!format!("{report:?}").contains("canary"));
    assert_eq!(pve.paths(), [""; 0]);
}

// proves: C-N11, C-N13, P-03
#[tokio::test]
async fn a_host_that_is_something_else_is_told_so() {
    for page in [body("<html>Log in</html>"), body(r#"{"data":null}"#), data(json!({"a": 1}))] {
        let pve = Pve::serving([(VERSION, page)]).await;
        let report = pve.check(ProxmoxOptions::default()).await;
        assert_eq!(last(&report), (StepName::Auth, StepStatus::Fail, Some("upstream_malformed")));
        assert!(report.steps.last().expect("a step").fix.as_deref().is_some_and(|fix| fix.contains("8006")));
    }
}

#[tokio::test]
async fn a_version_of_any_form_is_only_kept() {
    for (version, kept) in [(json!("9.0~rc1"), "9.0~rc1"), (json!(10), "10"), (json!("<b>9</b>"), "unknown")]
    {
        let pve = Pve::serving([
            (VERSION, data(json!({"version": version}))),
            (PERMISSIONS, data(json!({"/": {"Sys.Audit": 1, "VM.Audit": 1}}))),
            (NODES, data(json!([]))),
        ])
        .await;
        let report = pve.check(ProxmoxOptions::default()).await;
        assert!(report.passed(), "{report:?}");
        assert_eq!(report.facts["version"], kept);
    }
}

// proves: AD-04, P-04
#[tokio::test]
async fn a_check_that_runs_out_of_time_says_how_far_it_came() {
    let pve = pve(Reply::silence()).await;
    let report = pve.check(ProxmoxOptions::default()).await;
    assert_eq!(last(&report), (StepName::Permissions, StepStatus::Fail, Some("upstream_timeout")));
    assert_eq!(report.steps.len(), 5);
}
