//! The check of a configuration.

use egress::TlsTrust;
use egress::testing::Reply;
use mcp_core::check::{CheckReport, StepName, StepStatus};
use mcp_core::error::ErrorCode;
use serde_json::{Value, json};

use crate::world::{RUNS, TOKEN, World, repos_body, user_body};

fn user() -> Reply {
    Reply::json(200, user_body()).header("github-authentication-token-expiration", "2027-01-31 10:00:00 UTC")
}

fn listed(private: bool) -> Reply {
    let mut rows = repos_body();
    rows[0]["private"] = json!(private);
    // The public one first.
    rows.as_array_mut().expect("rows").reverse();
    Reply::json(200, rows)
}

fn runs() -> Reply {
    Reply::json(200, json!({"total_count": 0, "workflow_runs": []}))
}

fn steps(report: &CheckReport) -> Vec<(StepName, StepStatus)> {
    report.steps.iter().map(|step| (step.step, step.status)).collect()
}

fn last_message(report: &CheckReport) -> String {
    report.steps.last().map(|step| step.message.clone()).unwrap_or_default()
}

const REACHED: [(StepName, StepStatus); 3] =
    [(StepName::Egress, StepStatus::Ok), (StepName::Dns, StepStatus::Ok), (StepName::Tls, StepStatus::Ok)];

// proves: GH-03, GH-04
#[tokio::test]
async fn runs_of_a_private_repository_prove_the_permission() {
    let world = World::new().await;
    world.server.on("/user", user().header("x-github-enterprise-version", "enterprise-server@3.19.1"));
    world.server.on("/user/repos", listed(true));
    world.server.on(RUNS, runs());

    let report = world.check_with(TOKEN).await;

    let mut wanted = REACHED.to_vec();
    wanted.extend(
        [StepName::Auth, StepName::Permissions, StepName::Version].map(|step| (step, StepStatus::Ok)),
    );
    assert_eq!(steps(&report), wanted);
    assert_eq!(report.facts["token_expires_at"], json!("2027-01-31 10:00:00 UTC"));
    assert_eq!(report.facts["product"], json!("GitHub Enterprise Server"));
    assert_eq!(report.facts["login"], json!("octo"));
    assert_eq!(world.asked()[2], format!("{RUNS}?per_page=1&exclude_pull_requests=true"));
}

// proves: GH-04, GH-05
#[tokio::test]
async fn what_is_not_proven_is_a_partial_validation_that_says_what_to_grant() {
    let denied = Reply::json(403, json!({})).header("x-accepted-github-permissions", "actions=read");
    let table: [(Reply, Reply, &str); 4] = [
        (listed(true), denied, "actions=read"),
        (listed(true), Reply::json(404, json!({})), "missing or not granted"),
        (listed(false), runs(), "public"),
        (Reply::json(200, json!([])), runs(), "no repository"),
    ];
    for (repos, runs, words) in table {
        let world = World::new().await;
        world.server.on("/user", user());
        world.server.on("/user/repos", repos);
        world.server.on("/repos/Octo-Org/.github/actions/runs", runs.clone());
        world.server.on(RUNS, runs);
        let report = world.check_with(TOKEN).await;
        assert!(report.passed());
        assert_eq!((report.status(), report.code), (StepStatus::Warn, None));
        let step = &report.steps[4];
        assert!(step.message.contains(words), "{}", step.message);
        assert!(step.fix.as_deref().is_some_and(|fix| fix.contains("Actions: read")));
    }
}

// proves: GH-02, GH-03, D-006
#[tokio::test]
async fn what_cannot_work_fails_at_its_step_with_its_code() {
    let scopes = user().header("x-oauth-scopes", "");
    let table: [(Reply, ErrorCode, &str); 4] = [
        (Reply::json(401, json!({"message": "Bad credentials canary"})), ErrorCode::UpstreamAuth, "refused"),
        (scopes, ErrorCode::ConfigRefused, "fine-grained PAT required"),
        (Reply::json(404, Value::Null), ErrorCode::NotFound, "/api/v3"),
        (Reply::raw(200, "OK", &[], "<html>canary</html>"), ErrorCode::UpstreamMalformed, "not what its API"),
    ];
    for (reply, code, words) in table {
        let world = World::new().await;
        world.server.on("/user", reply);
        let report = world.check_with(TOKEN).await;
        assert_eq!(report.code, Some(code));
        assert_eq!(steps(&report).last(), Some(&(StepName::Auth, StepStatus::Fail)));
        let message = last_message(&report);
        assert!(message.contains(words) && !message.contains("canary"), "{message}");
        assert_eq!(world.asked(), ["/user"]);
    }
}

// proves: GH-02
#[tokio::test]
async fn a_token_of_another_kind_is_refused_before_anything_is_dialled() {
    let world = World::new().await;
    let report = world.check_with("ghp_0123456789abcdefghij0123456789abcdef").await;
    assert_eq!((report.passed(), report.code), (false, Some(ErrorCode::ConfigRefused)));
    assert!(last_message(&report).starts_with("fine-grained PAT required"));
    assert_eq!(world.server.accepted(), 0);
}

// proves: C-I01, C-I03, AD-06
#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_shown_and_gets_no_token() {
    let untrusted = World::https(|_| TlsTrust::System).await;
    let other_pin = World::https(|_| TlsTrust::pin(&"0a".repeat(32)).expect("a pin")).await;
    for (world, code) in [(untrusted, ErrorCode::TlsUntrusted), (other_pin, ErrorCode::TlsPinMismatch)] {
        let report = world.check_with(TOKEN).await;
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
        world.server.on("/user", Reply::json(401, json!({})));
        let report = world.check_with(TOKEN).await;
        assert_eq!(report.code, Some(ErrorCode::UpstreamAuth));
        assert_eq!(report.steps[2].status, StepStatus::Ok);
    }
}
