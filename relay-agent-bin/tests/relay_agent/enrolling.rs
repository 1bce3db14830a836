//! Enrolling: the key is made on the host, and a refusal leaves nothing behind.

use relay_agent::enroll::EnrollError;
use relay_agent::identity::{Identity, IdentityError};
use serde_json::json;

use super::control_plane::{AGENT, ControlPlane, TARGET};

#[tokio::test]
async fn an_agent_sends_its_public_key_and_its_facts_and_keeps_what_it_gets() {
    let mut control_plane = ControlPlane::start().await;
    let accepted = json!({"agentId": AGENT, "targetId": TARGET, "later": 1});
    let (enrolled, sent) = control_plane.enroll("201 Created", &accepted).await;

    assert_eq!(enrolled.unwrap().agent, AGENT);
    assert_eq!(sent["token"], "t0ken");
    assert_eq!(sent["publicKey"].as_str().unwrap().len(), 64);
    assert_eq!(sent["version"], env!("CARGO_PKG_VERSION"));
    assert!(sent["hostname"].is_string() && sent["os"].is_string());
    let identity = Identity::load(&control_plane.state_dir()).unwrap();
    assert_eq!((identity.agent, identity.target), (AGENT, TARGET));
    assert_eq!(identity.url.to_string(), control_plane.url());
}

#[tokio::test]
async fn a_refusal_leaves_nothing_behind() {
    for (status, answer) in [
        ("401 Unauthorized", json!({"error": "unauthorized", "message": "no"})),
        ("422 Unprocessable Content", json!({"error": "x", "message": "the host\u{1b}[2J is known"})),
        ("503 Service Unavailable", json!(null)),
        ("200 OK", json!({"agentId": AGENT, "targetId": TARGET})),
        ("201 Created", json!({"agentId": "me"})),
        ("302 Found", json!(null)),
    ] {
        let mut control_plane = ControlPlane::start().await;
        let error = control_plane.enroll(status, &answer).await.0.unwrap_err();
        match (&status[..3], &error) {
            ("401", EnrollError::TokenRefused)
            | ("200" | "201" | "302", EnrollError::NotAControlPlane)
            | ("503", EnrollError::Refused { status: 503, .. }) => {}
            ("422", EnrollError::Refused { status: 422, message }) => {
                assert_eq!(message, "the host is known");
            }
            _ => panic!("{status}: {error:?}"),
        }
        assert!(!control_plane.state_dir().exists(), "{status}");
        assert!(!format!("{error:?} {error}").contains("t0ken"));
    }
}

#[tokio::test]
async fn an_enrolled_agent_is_not_replaced() {
    let mut control_plane = ControlPlane::with_agent().await;
    let before = control_plane.record.public_key;
    let request = relay_agent::enroll::EnrollRequest::new(
        control_plane.url().parse().unwrap(),
        mcp_core::secret::SecretValue::new("another".to_owned()),
        control_plane.state_dir(),
    );
    // No request is sent, so the token stays good.
    let error = relay_agent::enroll::enroll(request).await.unwrap_err();
    assert!(matches!(error, EnrollError::Identity(IdentityError::AlreadyEnrolled)));
    control_plane.record.public_key = before;
    assert!(Identity::load(&control_plane.state_dir()).is_ok());
}

#[tokio::test]
async fn a_control_plane_that_is_not_there_is_said_to_be_so() {
    let control_plane = ControlPlane::start().await;
    let request = relay_agent::enroll::EnrollRequest::new(
        control_plane.url().parse().unwrap(),
        mcp_core::secret::SecretValue::new("t0ken".to_owned()),
        control_plane.state_dir(),
    );
    let state_dir = control_plane.state_dir();
    drop(control_plane);
    let error = relay_agent::enroll::enroll(request).await.unwrap_err();
    assert!(matches!(error, EnrollError::Unreachable(_)), "{error:?}");
    assert!(!state_dir.exists());
}
