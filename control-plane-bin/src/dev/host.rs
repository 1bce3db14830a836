//! A relay agent for this very machine, in this process but over a real WebSocket.

use std::path::Path;

use anyhow::Context as _;
use mcp_core::id::TargetId;
use mcp_core::secret::SecretValue;
use relay_agent::enroll::{EnrollRequest, enroll};
use relay_agent::facts::host_facts;
use relay_agent::identity::Identity;
use relay_agent::run::{AgentConfig, RunAs, run};
use relay_agent::server_url::ServerUrl;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientError};
use crate::data_dir::DataDir;

/// The directory below the data directory that the agent keeps its identity in.
const STATE_DIR: &str = "agent";

/// The running agent.
pub(super) struct HostAgent {
    pub(super) target: TargetId,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl HostAgent {
    /// Enrols this machine if it is not enrolled here yet, and runs its agent.
    pub(super) async fn start(client: &Client, url: &str, data: &DataDir) -> anyhow::Result<Self> {
        let state_dir = data.path().join(STATE_DIR);
        let url: ServerUrl = url.parse().context("the agent does not take this server's URL")?;
        let target = match usable(client, &url, &state_dir).await? {
            Some(target) => target,
            None => enrol(client, url, &state_dir).await?,
        };
        let mut config = AgentConfig::new(state_dir);
        // Root's agent would run its commands as root; nothing that they print needs that.
        config.run_as = if rustix::process::geteuid().is_root() { unprivileged() } else { None };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            if let Err(error) = run(config, stopped).await {
                tracing::error!(%error, "this machine's agent cannot run");
            }
        });
        Ok(Self { target, stop, running })
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.running.await {
            tracing::error!(%error, "this machine's agent panicked");
        }
    }
}

/// The target of an identity from an earlier run, if this server still knows it under this URL.
async fn usable(client: &Client, url: &ServerUrl, state_dir: &Path) -> anyhow::Result<Option<TargetId>> {
    let Ok(identity) = Identity::load(state_dir) else { return Ok(None) };
    if identity.url.authority() != url.authority() {
        return Ok(None);
    }
    let id = json!(identity.target);
    Ok(targets(client).await?.iter().any(|target| target["id"] == id).then_some(identity.target))
}

async fn enrol(client: &Client, url: ServerUrl, state_dir: &Path) -> anyhow::Result<TargetId> {
    // What an earlier run left is of no use any more: another URL, or revoked.
    if state_dir.exists() {
        std::fs::remove_dir_all(state_dir).context("an old agent directory cannot be removed")?;
    }
    let name = target_name(&host_facts().hostname);
    let body = json!({ "name": name });
    let made = match client.send(Method::POST, "/api/targets/enrollments", Some(&body)).await {
        Err(ClientError::Refused { status: StatusCode::CONFLICT, .. }) => {
            client.send(Method::POST, &format!("/api/targets/{name}/revoke"), None).await?;
            client.send(Method::POST, "/api/targets/enrollments", Some(&body)).await?
        }
        other => other?,
    };
    let token = made["token"].as_str().context("the answer holds no token")?.to_owned();
    let request = EnrollRequest::new(url, SecretValue::new(token), state_dir);
    Ok(enroll(request).await.context("this machine cannot be enrolled")?.target)
}

async fn targets(client: &Client) -> anyhow::Result<Vec<Value>> {
    let list = client.send(Method::GET, "/api/targets?limit=1000", None).await?;
    Ok(list["targets"].as_array().cloned().unwrap_or_default())
}

/// The host's name in the letters of a target's name.
fn target_name(hostname: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
    let name: String = hostname.chars().map(plain).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// The user `nobody`, or its usual number where there is no such entry.
fn unprivileged() -> Option<RunAs> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry =
        passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|entry| entry[0] == "nobody");
    let ids = entry.and_then(|entry| Some((entry.get(2)?.parse().ok()?, entry.get(3)?.parse().ok()?)));
    let (uid, gid) = ids.unwrap_or((65_534, 65_534));
    Some(RunAs { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hostname_makes_a_name() {
        for (hostname, name) in
            [("db-1", "db-1"), ("Web.Example", "web-example"), ("", "localhost"), ("__", "localhost")]
        {
            assert_eq!(target_name(hostname), name);
        }
        assert_eq!(target_name(&"a".repeat(100)).len(), 63);
    }
}
