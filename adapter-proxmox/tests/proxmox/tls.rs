//! Whose certificate is believed, and that the token goes to nobody else.

use std::sync::Arc;

use adapter_proxmox::{ProxmoxAdapter, ProxmoxOptions};
use egress::testing::{FakeServer, StaticResolver, loopback_policy};
use egress::{EgressPolicy, EgressUrl, ResolveError, Resolver, TlsTrust, UpstreamClient};
use mcp_core::check::{CheckReport, StepName, StepStatus, UpstreamAdapter};
use mcp_core::error::{AdapterError, ErrorCode};
use serde_json::json;

use crate::world::{Pve, call, credential, newest};

async fn pve() -> Pve {
    Pve::serving(newest()).await
}

fn last(report: &CheckReport) -> (StepName, StepStatus, Option<&'static str>) {
    let step = report.steps.last().expect("a step");
    (step.step, step.status, report.code.map(ErrorCode::as_str))
}

fn adapter_at(url: &str, policy: Arc<EgressPolicy>, resolver: impl Resolver + 'static) -> ProxmoxAdapter {
    let base = EgressUrl::parse(url, &policy).expect("a URL");
    let client = UpstreamClient::new(base, TlsTrust::System, policy, Arc::new(resolver)).expect("a client");
    ProxmoxAdapter::new(client, ProxmoxOptions::default())
}

// proves: C-I01, AD-06, X2-06
#[tokio::test]
async fn an_untrusted_certificate_is_shown_for_confirmation_and_gets_no_token() {
    let pve = pve().await;
    let adapter = pve.adapter_trusting(TlsTrust::System, ProxmoxOptions::default());
    let report = adapter.check(&credential()).await;
    assert_eq!(last(&report), (StepName::Tls, StepStatus::Fail, Some("tls_untrusted")));
    assert_eq!(report.fingerprint, Some(pve.server.fingerprint()));
    let refused = call(&adapter, "proxmox.get_node_metrics", json!({"node": "pve1"})).await;
    assert_eq!(refused.err(), Some(AdapterError::TlsUntrusted));
    assert!(pve.server.requests().is_empty());
}

// proves: C-I02, AD-06, X2-06
#[tokio::test]
async fn a_confirmed_certificate_is_believed() {
    let pve = pve().await;
    let pin = TlsTrust::pin(&pve.server.fingerprint()).expect("a pin");
    let adapter = pve.adapter_trusting(pin, ProxmoxOptions::default());
    assert!(adapter.check(&credential()).await.passed());
    assert!(call(&adapter, "proxmox.get_node_metrics", json!({"node": "pve1"})).await.is_ok());
}

// proves: C-I03, AD-06, X2-06
#[tokio::test]
async fn another_certificate_than_the_confirmed_one_gets_no_token() {
    let (pve, other) = (pve().await, FakeServer::https().await);
    let pin = TlsTrust::pin(&other.fingerprint()).expect("a pin");
    let adapter = pve.adapter_trusting(pin, ProxmoxOptions::default());
    let refused = call(&adapter, "proxmox.get_node_metrics", json!({"node": "pve1"})).await;
    assert_eq!(refused.err(), Some(AdapterError::TlsPinMismatch));
    let report = adapter.check(&credential()).await;
    assert_eq!(last(&report), (StepName::Tls, StepStatus::Fail, Some("tls_pin_mismatch")));
    assert_eq!(report.fingerprint, Some(pve.server.fingerprint()));
    assert!(pve.server.requests().is_empty());
}

// proves: P-04
#[tokio::test]
async fn a_host_that_is_not_reached_fails_the_step_that_says_why() {
    let nobody = || StaticResolver::failing(ResolveError::NotFound);
    let private = || StaticResolver::new(vec![[10, 0, 0, 7].into()]);
    let closed = format!("https://127.0.0.1:{}", closed_port());
    for (url, policy, resolver, step, code) in [
        ("https://pve.example.com:8006", loopback_policy(), nobody(), StepName::Dns, "upstream_error"),
        ("https://pve.example.com:8006", Arc::default(), private(), StepName::Egress, "egress_denied"),
        (closed.as_str(), loopback_policy(), nobody(), StepName::Tls, "upstream_error"),
    ] {
        let report = adapter_at(url, policy, resolver).check(&credential()).await;
        assert_eq!(last(&report), (step, StepStatus::Fail, Some(code)), "{url}");
        let step = report.steps.last().expect("a step");
        assert!(step.fix.is_some());
        if code == "egress_denied" {
            assert!(step.fix.as_deref().is_some_and(|fix| fix.contains("allow_cidrs = [\"10.0.0.7/32\"]")));
        }
    }
}

/// A port that nobody listens on: one that was just given back.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
