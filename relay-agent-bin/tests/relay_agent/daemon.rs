//! The daemon as a function: it answers, it comes back, and it stops when told to.

use std::time::Duration;

use mcp_core::relay::{CommandOutcome, FailureCode, RanCommand};
use relay_agent::identity::IdentityError;
use relay_agent::run::{AgentConfig, RunError, run};
use relay_agent::status::{LinkState, Status};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::control_plane::{ControlPlane, TARGET, soon};

struct Daemon {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Daemon {
    fn start(config: AgentConfig) -> Self {
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(run(config, shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        soon(self.running).await.unwrap().unwrap();
    }
}

fn ran(outcome: CommandOutcome) -> RanCommand {
    match outcome {
        CommandOutcome::Ran(ran) => ran,
        CommandOutcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

fn status(control_plane: &ControlPlane) -> Status {
    Status::load(&control_plane.state_dir()).unwrap().expect("the agent has run")
}

async fn until(control_plane: &ControlPlane, wanted: impl Fn(&Status) -> bool) -> Status {
    soon(async {
        loop {
            let status = status(control_plane);
            if wanted(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

// proves: H-01, H-10, C-G01, C-G16
#[tokio::test]
async fn the_six_commands_are_answered_by_this_very_machine() {
    let control_plane = ControlPlane::with_agent().await;
    let daemon = Daemon::start(control_plane.config());
    let mut link = control_plane.accept_live().await;

    assert!(ran(link.call(&control_plane, "uptime").await).stdout.contains("load average"));
    assert!(ran(link.call(&control_plane, "df -h").await).stdout.contains("Filesystem"));
    assert!(ran(link.call(&control_plane, "free -m").await).stdout.contains("Mem:"));
    // What these say depends on the machine: 0, 3 or 4 with systemd, 1 without. Each is an answer.
    for command in ["systemctl status no-such-unit", "journalctl -n 1", "systemctl list-units --type=service"]
    {
        match link.call(&control_plane, command).await {
            CommandOutcome::Ran(ran) => assert!((0..=4).contains(&ran.exit_code), "{ran:?}"),
            CommandOutcome::Failed { code, .. } => assert_eq!(code, FailureCode::SpawnFailed),
        }
    }
    let facts = link.facts.take().unwrap();
    assert_eq!(facts, relay_agent::facts::host_facts());
    daemon.stop().await;
}

// proves: C-G14, H-05
#[tokio::test]
async fn the_agent_refuses_whatever_the_control_plane_did_not() {
    let control_plane = ControlPlane::with_agent().await;
    let narrow = r#"{"version":1,"commands":["uptime"]}"#;
    std::fs::write(control_plane.state_dir().join("whitelist.json"), narrow).unwrap();
    let daemon = Daemon::start(control_plane.config());
    let mut link = control_plane.accept_live().await;
    for command in ["id", "systemctl status -Hevil.example", "uptime;id", "df -h"] {
        let outcome = link.call(&control_plane, command).await;
        assert!(
            matches!(outcome, CommandOutcome::Failed { code: FailureCode::Rejected, exit_code: -1, .. }),
            "{command}: {outcome:?}"
        );
    }
    assert_eq!(ran(link.call(&control_plane, "uptime").await).exit_code, 0);
    daemon.stop().await;
}

// proves: C-M15, H-22
#[tokio::test]
async fn it_raises_the_alert_after_five_failures_and_keeps_trying() {
    let control_plane = ControlPlane::with_agent().await;
    let daemon = Daemon::start(control_plane.config());
    for _ in 0..4 {
        control_plane.drop_one().await;
    }
    assert!(!status(&control_plane).alert);
    for _ in 0..21 {
        control_plane.drop_one().await;
    }
    let failing = until(&control_plane, |status| status.failures >= 5).await;
    assert!(failing.alert && failing.last_error.is_some());
    assert!(!failing.is_online());

    let mut link = control_plane.accept_live().await;
    assert_eq!(ran(link.call(&control_plane, "uptime").await).exit_code, 0);
    let online = until(&control_plane, Status::is_online).await;
    assert!(!online.alert);
    assert_eq!((online.failures, online.target_id), (0, TARGET));
    daemon.stop().await;
}

// proves: C-M07
#[tokio::test]
async fn a_revoked_agent_says_so_and_waits() {
    let mut control_plane = ControlPlane::with_agent().await;
    control_plane.record.revoked = true;
    let mut config = control_plane.config();
    config.reconnect.refused = Duration::from_secs(300);
    let daemon = Daemon::start(config);
    control_plane.accept().await.refuse(&control_plane).await;
    let refused = until(&control_plane, |status| status.state == LinkState::Refused).await;
    assert!(refused.last_error.unwrap().contains("revoked"));
    daemon.stop().await;
}

#[tokio::test]
async fn it_comes_back_after_a_goodbye_and_leaves_with_one() {
    let control_plane = ControlPlane::with_agent().await;
    let daemon = Daemon::start(control_plane.config());
    let mut first = control_plane.accept_live().await;
    first.goodbye(1).await;
    assert_eq!(first.closed().await, Some(1001));
    let mut second = control_plane.accept_live().await;
    let (code, ()) = tokio::join!(second.closed(), daemon.stop());
    assert_eq!(code, Some(1001));
    assert_eq!(status(&control_plane).state, LinkState::Stopped);
}

#[tokio::test]
async fn one_state_directory_is_one_agent() {
    let control_plane = ControlPlane::with_agent().await;
    let daemon = Daemon::start(control_plane.config());
    let _link = control_plane.accept_live().await;
    let second = run(control_plane.config(), CancellationToken::new()).await;
    assert!(matches!(second, Err(RunError::AlreadyRunning)));
    daemon.stop().await;
}

// proves: H-06, C-O11
#[tokio::test]
async fn it_does_not_start_on_what_it_cannot_trust() {
    let empty = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new;
    let error = run(AgentConfig::new(empty.path()), stop()).await.unwrap_err();
    assert!(matches!(error, RunError::Identity(IdentityError::NotEnrolled)));

    let control_plane = ControlPlane::with_agent().await;
    let policy = control_plane.state_dir().join("whitelist.json");
    std::fs::write(&policy, r#"{"version":1,"commands":["id"]}"#).unwrap();
    let error = run(control_plane.config(), stop()).await.unwrap_err();
    assert!(matches!(error, RunError::Policy(_)) && error.to_string().contains("\"id\""), "{error}");
}
