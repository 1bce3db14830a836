//! A real relay agent for this machine, in the test's own process.

use std::path::Path;

use mcp_core::secret::SecretValue;
use relay_agent::enroll::{EnrollRequest, enroll};
use relay_agent::run::{AgentConfig, run};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::server::{Client, eventually};

pub(crate) struct Agent {
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<()>,
}

/// Enrols an agent as `this-host`, and waits until the control plane can reach it.
pub(crate) async fn agent(admin: &Client, url: &str, state_dir: &Path) -> Agent {
    let made: Value = admin
        .post("/api/targets/enrollments", json!({"name": "this-host"}))
        .await
        .json()
        .await
        .expect("JSON");
    let token = SecretValue::new(made["token"].as_str().expect("a token").to_owned());
    let url = url.parse().expect("a URL");
    let state_dir = state_dir.to_owned();
    enroll(EnrollRequest::new(url, token, &state_dir)).await.expect("enrolled");
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running =
        tokio::spawn(async move { run(AgentConfig::new(state_dir), stopped).await.expect("it runs") });
    eventually("the agent is green", async || {
        admin.json("/api/targets").await["targets"][0]["status"] == "green"
    })
    .await;
    Agent { stop, running }
}
