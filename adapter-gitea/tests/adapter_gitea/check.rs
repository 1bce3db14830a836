//! The check of a configuration.

use egress::TlsTrust;
use egress::testing::Reply;
use mcp_core::check::{CheckReport, StepName, StepStatus};
use mcp_core::error::ErrorCode;
use serde_json::{Value, json};

use crate::world::{TOKEN, USER_REPOS, World, repos_body, search_body, version_body};

const SEARCH: &str = "/api/v1/repos/search";
const VERSION: &str = "/api/v1/version";

fn listed() -> Reply {
    Reply::json(200, repos_body())
}

fn version(text: &str) -> Reply {
    Reply::json(200, json!({"version": text}))
}

fn lacks(scope: &str) -> Reply {
    let message = format!("token does not have at least one of required scope(s): [{scope}]");
    Reply::json(403, json!({"message": message}))
}

fn step(report: &CheckReport, name: StepName) -> (StepStatus, String) {
    let step = report.steps.iter().find(|step| step.step == name).expect("the step was taken");
    (step.status, step.message.clone())
}

// proves: GT-02, GT-04
#[tokio::test]
async fn a_token_that_may_list_passes_every_step() {
    let world = World::new().await;
    world.server.on(USER_REPOS, listed());
    world.server.on(VERSION, Reply::json(200, version_body()));
    let report = world.check().await;
    let steps: Vec<_> = report.steps.iter().map(|step| step.step).collect();
    use StepName::{Auth, Dns, Egress, Permissions, Tls, Version};
    assert_eq!(steps, [Egress, Dns, Tls, Auth, Permissions, Version]);
    assert_eq!((report.status(), report.code), (StepStatus::Ok, None));
    assert_eq!((&report.facts["product"], &report.facts["version"]), (&json!("Gitea"), &json!("1.25.2")));
    assert_eq!(world.asked(), [format!("{USER_REPOS}?limit=1"), VERSION.to_owned()]);
}

// proves: GT-02, GT-03
#[tokio::test]
async fn the_version_is_asked_for_with_the_token_and_then_without() {
    let world = World::new().await;
    world.server.on(USER_REPOS, listed());
    world.server.on_fn(VERSION, |seen| {
        if seen.headers.contains_key("authorization") {
            lacks("read:misc")
        } else {
            version("7.0.3+gitea-1.21.11")
        }
    });
    let report = world.check().await;
    let message = "Forgejo 7.0.3 (compatible with Gitea 1.21.11)".to_owned();
    assert_eq!(step(&report, StepName::Version), (StepStatus::Ok, message));
    assert_eq!(report.facts["gitea_version"], json!("1.21.11"));
}

// proves: GT-02, GT-03
#[tokio::test]
async fn an_unknown_or_old_version_is_no_failure() {
    for (reply, words) in [
        (version("d64e081bf6"), "Gitea or Forgejo d64e081bf6"),
        (version("1.22.4"), "no API for Actions runs"),
        (Reply::json(404, json!({})), "does not tell its version"),
        (Reply::json(500, json!({})), "does not tell its version"),
        (Reply::json(200, Value::Null), "does not tell its version"),
    ] {
        let world = World::new().await;
        world.server.on(USER_REPOS, listed());
        world.server.on(VERSION, reply);
        let report = world.check().await;
        assert_eq!(report.status(), StepStatus::Ok);
        assert!(step(&report, StepName::Version).1.contains(words), "{words}");
    }
}

// proves: GT-04, REQ-027
#[tokio::test]
async fn every_missing_scope_is_named_at_once() {
    let found = Reply::json(200, search_body());
    for (search, named) in [(found, "read:user;"), (lacks("read:repository"), "read:user, read:repository;")]
    {
        let world = World::new().await;
        world.server.on(USER_REPOS, lacks("read:user"));
        world.server.on(SEARCH, search);
        let report = world.check().await;
        assert_eq!((report.passed(), report.code), (false, Some(ErrorCode::InsufficientScope)));
        let (status, message) = step(&report, StepName::Permissions);
        assert_eq!(status, StepStatus::Fail);
        assert!(message.contains(named), "{message}");
    }
}

// proves: GT-04
#[tokio::test]
async fn where_the_list_fails_the_search_tells_whether_the_rest_works() {
    let world = World::new().await;
    world.server.on(USER_REPOS, Reply::json(500, json!({"message": ""})));
    world.server.on(SEARCH, Reply::json(200, search_body()));
    let report = world.check().await;
    assert_eq!(step(&report, StepName::Permissions).0, StepStatus::Warn);
    assert_eq!(world.asked()[1], format!("{SEARCH}?limit=1"));
}

// proves: GT-04, C-N14, C-N15
#[tokio::test]
async fn what_cannot_work_fails_with_its_code_and_quotes_nothing() {
    for (reply, code) in [
        (Reply::json(401, json!({"message": TOKEN})), ErrorCode::UpstreamAuth),
        (Reply::json(404, json!({"message": TOKEN})), ErrorCode::NotFound),
        (Reply::raw(200, "OK", &[], format!("<html>{TOKEN}</html>")), ErrorCode::UpstreamMalformed),
        (Reply::json(500, json!({"message": TOKEN})), ErrorCode::UpstreamError),
    ] {
        let world = World::new().await;
        world.server.on(USER_REPOS, reply);
        let report = world.check().await;
        assert_eq!((report.passed(), report.code), (false, Some(code)));
        assert_eq!(step(&report, StepName::Auth).0, StepStatus::Fail);
        assert!(!format!("{report:?}").contains(TOKEN));
    }
}

// proves: C-I01, C-I03, AD-06
#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_shown_and_gets_no_token() {
    let untrusted = World::https(|_| TlsTrust::System).await;
    let other_pin = World::https(|_| TlsTrust::pin(&"0a".repeat(32)).expect("a pin")).await;
    for (world, code) in [(untrusted, ErrorCode::TlsUntrusted), (other_pin, ErrorCode::TlsPinMismatch)] {
        let report = world.check().await;
        assert_eq!(report.code, Some(code));
        assert_eq!(
            report.steps.last().map(|step| (step.step, step.status)),
            Some((StepName::Tls, StepStatus::Fail))
        );
        assert_eq!(report.fingerprint, Some(world.server.fingerprint()));
        assert!(world.asked().is_empty());
    }
}

// proves: C-I02, AD-06
#[tokio::test]
async fn a_pinned_certificate_and_a_given_authority_are_trusted() {
    let pinned = World::https(|server| TlsTrust::pin(&server.fingerprint()).expect("a pin")).await;
    let given = World::https(|server| TlsTrust::ca_pem(&server.ca_pem()).expect("an authority")).await;
    for world in [pinned, given] {
        world.server.on(USER_REPOS, Reply::json(401, json!({})));
        let report = world.check().await;
        assert_eq!(report.code, Some(ErrorCode::UpstreamAuth));
        assert_eq!(report.steps[2].status, StepStatus::Ok);
    }
}
