//! The agent itself: links one after the other, for ever.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::relay::HostFacts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
pub use crate::backoff::Reconnect;
use crate::dial::{Dialer, TlsError};
use crate::doctor::chain;
use crate::executor::Executor;
pub use crate::executor::RunAs;
use crate::facts::host_facts;
use crate::files::claim;
use crate::identity::{Identity, IdentityError};
use crate::link::{self, Agent, LinkEnd, LinkEvent};
use crate::local_policy::{LocalPolicy, PolicyError};
use crate::proxy::Proxy;
use crate::status::{LinkState, StatusFile};

/// Name of the local policy in the state directory.
pub(crate) const POLICY_FILE: &str = "whitelist.json";
/// Failures in a row after which somebody should look.
const ALERT_AFTER: u32 = 5;

/// How an agent runs.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where it was enrolled; `whitelist.json` and `status.json` are there too.
    pub state_dir: PathBuf,
    /// What it says of its host.
    pub facts: HostFacts,
    /// The user that commands run as. Only root can ask for that; `None` means the agent's own.
    pub run_as: Option<RunAs>,
    /// The proxy on the way out, if any. Never used for loopback addresses.
    pub proxy: Option<Proxy>,
    /// Times between attempts.
    pub reconnect: Reconnect,
}

impl AgentConfig {
    /// An agent of this directory that describes this host and runs commands as itself.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            facts: host_facts(),
            run_as: None,
            proxy: None,
            reconnect: Reconnect::default(),
        }
    }
}

/// The agent cannot start. Once it has started nothing makes it stop but `shutdown`.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It is not enrolled, or its files cannot be trusted.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another process runs the agent of this directory.
    #[error("the agent of this state directory is running already")]
    AlreadyRunning,
    /// `whitelist.json` cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No secure connection can be made from this host.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Keeps a link to the control plane and answers its calls until `shutdown` is cancelled.
///
/// A link that is lost is opened again after 1 to 60 s, without end; how it fares stands in `status.json`. Nothing is
/// global: several agents can run in one process. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// [`RunError`] when it cannot start; never afterwards.
///
/// # Cancellation
/// Dropping the future drops the link and kills the commands, but `status.json` then stays as it was.
pub async fn run(config: AgentConfig, shutdown: CancellationToken) -> Result<(), RunError> {
    let AgentConfig { state_dir, facts, run_as, proxy, reconnect } = config;
    let identity = Identity::load(&state_dir)?;
    // Two processes with one key would throw each other's links out for ever.
    let _claim = match claim(&state_dir) {
        Ok(claim) => claim.ok_or(RunError::AlreadyRunning)?,
        Err(source) => return Err(IdentityError::Unreadable { path: state_dir, source }.into()),
    };
    let policy = LocalPolicy::load(&state_dir.join(POLICY_FILE))?;
    let dialer = Dialer::new(identity.url.clone(), &identity.trust, proxy)?;
    let mut status = StatusFile::new(&state_dir, &identity);
    let agent = Agent { identity, facts, policy, executor: Arc::new(Executor::new(run_as)) };
    let mut backoff = Backoff::new(reconnect);

    loop {
        status.update(LinkState::Connecting, |_| {});
        let mut live_since = None;
        let on_event = |event| note(&mut status, &mut live_since, event);
        let Some(end) = link::serve(&agent, &dialer, &shutdown, on_event).await else { break };
        let lived = live_since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
        let wait = backoff.after(&end, lived);
        report(&mut status, &end, live_since.is_some(), wait);
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
    status.update(LinkState::Stopped, |_| {});
    tracing::info!("the agent has stopped");
    Ok(())
}

fn note(status: &mut StatusFile, live_since: &mut Option<Instant>, event: LinkEvent) {
    match event {
        LinkEvent::Registered(target) => {
            tracing::info!(target.id = %target, "the link to the control plane is live");
            *live_since = Some(Instant::now());
            status.update(LinkState::Online, |status| {
                status.target_id = target;
                status.failures = 0;
                status.alert = false;
            });
        }
        LinkEvent::Heartbeat => status.update(LinkState::Online, |_| {}),
    }
}

/// Writes down why a link ended. A lost link is no failure yet; an attempt that leads to none is.
fn report(status: &mut StatusFile, end: &LinkEnd, was_live: bool, wait: Duration) {
    let state = match end {
        LinkEnd::Unauthorized(_) => LinkState::Refused,
        _ => LinkState::Waiting,
    };
    let reason = chain(end);
    let mut failures = 0;
    status.update(state, |status| {
        if !was_live {
            status.failures = status.failures.saturating_add(1);
        }
        status.alert = status.failures >= ALERT_AFTER;
        status.last_error = Some(reason.clone());
        failures = status.failures;
    });
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    if failures == ALERT_AFTER {
        tracing::error!(
            alert = true,
            failures,
            wait_ms,
            reason,
            "the control plane cannot be reached; still trying"
        );
    } else {
        tracing::warn!(failures, wait_ms, reason, "there is no link to the control plane");
    }
}
