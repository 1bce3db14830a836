//! Every way in which the upstream can say no, be slow, or be somebody else.

use std::time::{Duration, Instant};

use egress::testing::Reply;
use mcp_core::error::AdapterError;
use serde_json::json;

use crate::world::{Pve, SECRET, body, data, refusal};

const STATUS: &str = "/api2/json/nodes/pve1/status";
const NODES: &str = "/api2/json/nodes";
/// Text of the upstream that must not come back to a caller.
const CANARY: &str = "canary-4711";

async fn metrics(pve: &Pve) -> Result<serde_json::Map<String, serde_json::Value>, AdapterError> {
    pve.call("proxmox.get_node_metrics", json!({"node": "pve1"})).await
}

fn nodes(list: &[(&str, &str)]) -> Reply {
    data(list.iter().map(|(node, status)| json!({"node": node, "status": status})).collect())
}

// proves: P-03, C-N14
#[tokio::test]
async fn a_bad_token_is_told_by_the_number_alone() {
    for page in [
        refusal(401, "No ticket"),
        refusal(401, "Authentication failed!"),
        refusal(401, "no such token 'x' for user 'y'").no_close_notify(),
        refusal(401, "invalid token value!").no_close_notify(),
    ] {
        let pve = Pve::serving([(STATUS, page)]).await;
        assert_eq!(metrics(&pve).await.err(), Some(AdapterError::UpstreamAuth));
        assert_eq!(pve.paths(), [STATUS], "a bad token is not tried again");
    }
}

// proves: C-N14
#[tokio::test]
async fn a_missing_privilege_is_named() {
    let pve =
        Pve::serving([(STATUS, refusal(403, "Permission check failed (/nodes/pve1, Sys.Audit)"))]).await;
    let permission = "Sys.Audit on /nodes/pve1".to_owned();
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::InsufficientScope { permission }));
}

// proves: AD-05
#[tokio::test]
async fn failures_are_told_apart_and_never_quoted() {
    for (status, says) in [
        (400, "parameters"),
        (404, "no Proxmox VE API"),
        (500, "status 500"),
        (501, "does not have"),
        (502, "proxy in front"),
        (503, "proxy in front"),
        (504, "proxy in front"),
        (520, "status 520"),
        (595, "cannot reach the node"),
        (596, "node's name"),
        (599, "599"),
    ] {
        let page = refusal(status, CANARY);
        let pve = Pve::serving([(STATUS, page), (NODES, nodes(&[("pve1", "online")]))]).await;
        let refused = metrics(&pve).await;
        let Err(AdapterError::Upstream(message)) = refused else { panic!("{status}: {refused:?}") };
        assert!(message.contains(says), "{status}: {message}");
        assert!(!message.contains(CANARY), "{status}: {message}");
    }
}

#[tokio::test]
async fn a_proxy_that_limits_its_rate_is_obeyed() {
    let pve = Pve::serving([(STATUS, refusal(429, "slow down").header("retry-after", "17"))]).await;
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::UpstreamRateLimited { retry_after_sec: 17 }));
    let pve = Pve::serving([(STATUS, refusal(429, "slow down"))]).await;
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::UpstreamRateLimited { retry_after_sec: 60 }));
}

// proves: AD-05
#[tokio::test]
async fn a_wrong_node_name_is_answered_with_the_right_ones() {
    for page in [
        refusal(500, "hostname lookup 'pve1' failed - failed to get address info"),
        refusal(595, "no such host"),
        refusal(596, "certificate verify failed"),
        refusal(500, "some new words"),
    ] {
        let others = nodes(&[("beta", "online"), ("alpha", "online"), ("<script>", "online")]);
        let pve = Pve::serving([
            (STATUS, page.clone()),
            ("/api2/json/nodes/pve1/qemu", page.clone()),
            ("/api2/json/nodes/pve1/lxc", page),
            (NODES, others),
        ])
        .await;
        for tool in ["proxmox.get_node_metrics", "proxmox.list_vms"] {
            let refused = pve.call(tool, json!({"node": "pve1"})).await;
            let Err(AdapterError::NotFound(message)) = refused else { panic!("{refused:?}") };
            assert!(message.contains("no node pve1; the nodes here are: alpha, beta."), "{message}");
        }
    }
}

#[tokio::test]
async fn a_node_that_is_down_is_not_a_wrong_name() {
    let all = nodes(&[("pve1", "offline"), ("pve2", "online")]);
    let pve = Pve::serving([(STATUS, refusal(595, "No route to host")), (NODES, all)]).await;
    let refused = metrics(&pve).await;
    assert_eq!(
        refused.err(),
        Some(AdapterError::Upstream("the node pve1 is offline, as the cluster reports".to_owned()))
    );
}

#[tokio::test]
async fn the_old_defect_between_nodes_is_tried_once_more() {
    let pve = Pve::serving([(NODES, nodes(&[("pve1", "online")]))]).await;
    let answer = data(json!({"cpu": 0.5, "uptime": 1}));
    pve.server.on_each(STATUS, [refusal(599, "Too many redirections"), answer]);
    assert_eq!(metrics(&pve).await.expect("an answer")["cpu"], 0.5);
    assert_eq!(pve.paths(), [STATUS, STATUS]);

    let pve = Pve::serving([
        (STATUS, refusal(599, "Too many redirections")),
        (NODES, nodes(&[("pve1", "online")])),
    ])
    .await;
    assert!(metrics(&pve).await.is_err());
    assert_eq!(pve.paths(), [STATUS, STATUS, NODES]);
}

// proves: C-F07
#[tokio::test]
async fn a_redirect_is_never_followed() {
    for status in [301, 302, 303, 307, 308] {
        let page = refusal(status, "Moved").header("location", "/api2/json/access/users");
        let pve = Pve::serving([(STATUS, page)]).await;
        let refused = metrics(&pve).await;
        let Err(AdapterError::Upstream(message)) = refused else { panic!("{refused:?}") };
        assert!(message.contains("redirect"), "{message}");
        assert_eq!(pve.paths(), [STATUS]);
    }
}

// proves: C-N10
#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let pve = Pve::serving([(STATUS, body(" ".repeat(64 * 1024)).endless())]).await;
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::TooLarge));
}

// proves: AD-04, C-N12
#[tokio::test]
async fn silence_ends_after_ten_seconds() {
    let begun = Instant::now();
    let pve = Pve::serving([(STATUS, Reply::silence())]).await;
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::Timeout));
    assert!((Duration::from_secs(9)..Duration::from_secs(12)).contains(&begun.elapsed()));
}

// proves: AD-04, C-N12
#[tokio::test]
async fn a_drip_ends_after_ten_seconds_too() {
    let begun = Instant::now();
    let drip = data(json!({"cpu": 0.5, "uptime": 1})).drip(Duration::from_secs(1));
    let pve = Pve::serving([(STATUS, drip)]).await;
    assert_eq!(metrics(&pve).await.err(), Some(AdapterError::Timeout));
    assert!((Duration::from_secs(9)..Duration::from_secs(12)).contains(&begun.elapsed()));
}

// proves: C-N12
#[tokio::test]
async fn a_connection_that_breaks_is_an_error() {
    let pve = Pve::serving([(STATUS, data(json!({"cpu": 0.5, "uptime": 1})).cut_after(5))]).await;
    let refused = metrics(&pve).await;
    assert!(matches!(refused, Err(AdapterError::Malformed | AdapterError::Upstream(_))), "{refused:?}");
}

// proves: C-N15
#[tokio::test]
async fn a_secret_that_the_upstream_repeats_does_not_come_back() {
    let page = data(json!({"cpu": 0.5, "uptime": 1, "kversion": format!("seen {SECRET} here")}));
    let pve = Pve::serving([(STATUS, page)]).await;
    assert_eq!(metrics(&pve).await.expect("an answer")["kversion"], "seen [REDACTED] here");
}
