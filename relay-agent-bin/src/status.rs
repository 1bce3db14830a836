//! `status.json` in the state directory: how the agent fares, for `relay-agent status` and for monitoring.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_core::id::{AgentId, TargetId};
use serde::{Deserialize, Serialize};

use crate::files::replace;
use crate::identity::Identity;

const FILE: &str = "status.json";
/// Age at which a live link's file means that no agent is running: two heartbeats and then some, seconds.
const STALE_AFTER: u64 = 90;

/// What the agent wrote last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// What it is doing.
    pub state: LinkState,
    /// Since when, seconds since 1970.
    pub since: u64,
    /// When the file was written, seconds since 1970. A live link writes it at each heartbeat.
    pub updated: u64,
    /// The control plane.
    pub url: String,
    /// The agent.
    pub agent_id: AgentId,
    /// The host that it stands for.
    pub target_id: TargetId,
    /// Attempts in a row that did not lead to a live link.
    pub failures: u32,
    /// True after five failures: somebody should look. The agent keeps trying.
    pub alert: bool,
    /// Why the last link ended or did not come about.
    pub last_error: Option<String>,
}

/// What an agent can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// Opening a link.
    Connecting,
    /// The link is live.
    Online,
    /// Waiting before the next attempt.
    Waiting,
    /// The control plane does not accept this agent; waiting for a long time before the next attempt.
    Refused,
    /// Stopped in an orderly way.
    Stopped,
}

impl Status {
    /// Reads the file; `None` when the agent never ran.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn load(state_dir: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(state_dir.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the link is live, going by how old the file is.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.state == LinkState::Online && now().saturating_sub(self.updated) < STALE_AFTER
    }
}

/// The file while the agent runs.
pub(crate) struct StatusFile {
    path: PathBuf,
    status: Status,
    writable: bool,
}

impl StatusFile {
    pub(crate) fn new(state_dir: &Path, identity: &Identity) -> Self {
        let status = Status {
            state: LinkState::Connecting,
            since: now(),
            updated: now(),
            url: identity.url.to_string(),
            agent_id: identity.agent,
            target_id: identity.target,
            failures: 0,
            alert: false,
            last_error: None,
        };
        Self { path: state_dir.join(FILE), status, writable: true }
    }

    /// Changes the status and writes it down. A file that cannot be written must not stop the agent: it is said once.
    pub(crate) fn update(&mut self, state: LinkState, change: impl FnOnce(&mut Status)) {
        change(&mut self.status);
        self.status.updated = now();
        if self.status.state != state {
            self.status.state = state;
            self.status.since = self.status.updated;
        }
        let json = serde_json::to_vec_pretty(&self.status).expect("plain data always has a JSON form");
        let written = replace(&self.path, &json);
        if let Err(error) = &written
            && self.writable
        {
            tracing::warn!(%error, "status.json cannot be written");
        }
        self.writable = written.is_ok();
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
