//! `ssh.run_whitelisted_command`: one of six commands, through the target's relay agent.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_core::adapter::{Adapter, Target};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::policy::PermittedCall;
use mcp_core::relay::{CommandOutcome, FailureCode, RanCommand};
use mcp_core::secret::SecretValue;
use mcp_core::tool::ssh::CommandOutput;
use mcp_core::tool::{AdapterKind, ToolOutput};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::hub::{Hub, HubError};
use crate::whitelist::Command;

/// Reaches Linux hosts through the hub.
pub struct SshAdapter {
    hub: Arc<Hub>,
}

impl SshAdapter {
    /// An adapter over this hub.
    #[must_use]
    pub fn new(hub: Arc<Hub>) -> Self {
        Self { hub }
    }
}

#[async_trait]
impl Adapter for SshAdapter {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Ssh
    }

    fn ready(&self, target: &Target) -> Result<(), CallError> {
        if self.hub.is_connected(target.tenant, target.id) { Ok(()) } else { Err(CallError::TargetOffline) }
    }

    async fn execute(
        &self,
        call: PermittedCall,
        _credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError> {
        // Parsed again, so that this adapter is a wall of its own: what is sent is the canonical text of a command.
        let text = call.args().get("command").and_then(Value::as_str).unwrap_or_default();
        let command = Command::parse(text).map_err(|_| AdapterError::RejectedByAgent)?;
        let target = call.target();
        let ran = self.hub.run(target.tenant, target.id, call.correlation(), command.canonical()).await;
        match ran {
            Ok(CommandOutcome::Ran(output)) => Ok(answer(output)),
            Ok(CommandOutcome::Failed { code, .. }) => Err(match code {
                FailureCode::Rejected => AdapterError::RejectedByAgent,
                FailureCode::Timeout => AdapterError::Timeout,
                FailureCode::Busy => AdapterError::AgentBusy,
                FailureCode::SpawnFailed => {
                    AdapterError::Upstream("the command could not be started on the host".to_owned())
                }
                // Nobody cancels but this side, and then nobody waits.
                FailureCode::Cancelled => AdapterError::AgentDisconnected,
            }),
            Err(HubError::Offline) => Err(AdapterError::Offline),
            Err(HubError::Disconnected) => Err(AdapterError::AgentDisconnected),
        }
    }
}

/// The audit row keeps the exit code, digest and length of the output, never the output (C-G19).
fn answer(output: RanCommand) -> ToolOutput {
    let sha256: String =
        digest(&SHA256, output.stdout.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let facts = json!({
        "exitCode": output.exit_code, "stdoutBytes": output.stdout.len(), "stdoutSha256": sha256,
    });
    let structured = serde_json::to_value(CommandOutput {
        stdout: output.stdout,
        stderr: output.stderr,
        exit_code: output.exit_code,
        truncated: output.truncated,
    });
    ToolOutput::with_facts(object(structured.unwrap_or_default()), object(facts))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
