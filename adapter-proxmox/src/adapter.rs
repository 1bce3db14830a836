//! The adapter: from a permitted call to the tool that answers it.

use std::time::Duration;

use async_trait::async_trait;
use egress::UpstreamClient;
use mcp_core::adapter::Adapter;
use mcp_core::check::{CheckReport, UpstreamAdapter};
use mcp_core::error::AdapterError;
use mcp_core::policy::PermittedCall;
use mcp_core::secret::SecretValue;
use mcp_core::tool::proxmox::{GetNodeMetricsArgs, GetVmStatusArgs, ListVmsArgs};
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::client::PveClient;
use crate::config::ProxmoxOptions;
use crate::endpoint::{NodeName, Vmid};
use crate::token::PveToken;
use crate::tools::{get_node_metrics, get_vm_status, list_vms};

/// For everything that one call or one check does. Proxmox VE itself waits 30 s for another node.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// One configured Proxmox VE. It holds no credential: one is lent to it per call.
pub struct ProxmoxAdapter {
    client: UpstreamClient,
    options: ProxmoxOptions,
}

impl ProxmoxAdapter {
    /// An adapter over the host that `client` is bound to. Nothing is dialled.
    #[must_use]
    pub fn new(client: UpstreamClient, options: ProxmoxOptions) -> Self {
        Self { client, options }
    }

    async fn answer(&self, call: &PermittedCall, token: &PveToken) -> Result<ToolOutput, AdapterError> {
        let client = PveClient::new(&self.client, token);
        match call.tool() {
            ToolName::ProxmoxListVms => {
                let args: ListVmsArgs = arguments(call)?;
                let list = list_vms::run(&client, &node(&args.node)?).await?;
                let facts = [("guests", json!(list.vms.len())), ("truncated", json!(list.extent.truncated))];
                output(&list, facts)
            }
            ToolName::ProxmoxGetVmStatus => {
                let args: GetVmStatusArgs = arguments(call)?;
                let vmid = Vmid::parse(u64::from(args.vmid))
                    .ok_or_else(|| not_there("a guest's number lies between 100 and 999999999"))?;
                output(&get_vm_status::run(&client, &node(&args.node)?, vmid).await?, [])
            }
            ToolName::ProxmoxGetNodeMetrics => {
                let args: GetNodeMetricsArgs = arguments(call)?;
                output(&get_node_metrics::run(&client, &node(&args.node)?).await?, [])
            }
            ToolName::SshRunWhitelistedCommand
            | ToolName::GithubListRepos
            | ToolName::GithubGetRecentCiRuns
            | ToolName::GithubGetWorkflowRun
            | ToolName::GiteaListRepos
            | ToolName::GiteaGetRecentCiRuns => Err(not_there("Proxmox VE does not have this tool")),
        }
    }
}

#[async_trait]
impl Adapter for ProxmoxAdapter {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Proxmox
    }

    async fn execute(
        &self,
        call: PermittedCall,
        credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError> {
        let token = credential.as_ref().and_then(token).ok_or(AdapterError::UpstreamAuth)?;
        let answered = tokio::time::timeout(DEADLINE, self.answer(&call, &token)).await;
        answered.unwrap_or(Err(AdapterError::Timeout))
    }
}

#[async_trait]
impl UpstreamAdapter for ProxmoxAdapter {
    async fn check(&self, credential: &SecretValue) -> CheckReport {
        Check::new(&self.client, self.options).run(PveToken::parse_secret(credential)).await
    }
}

fn token(credential: &SecretValue) -> Option<PveToken> {
    PveToken::parse_secret(credential).ok()
}

/// The pipeline has checked the arguments against the schema; a call from elsewhere gets an answer, not a panic.
fn arguments<T: DeserializeOwned>(call: &PermittedCall) -> Result<T, AdapterError> {
    T::deserialize(call.args()).map_err(|_| not_there("the arguments are not those of this tool"))
}

fn node(name: &str) -> Result<NodeName, AdapterError> {
    NodeName::parse(name).ok_or_else(|| {
        not_there("no node has such a name; use the one that Proxmox VE shows, without a domain")
    })
}

fn not_there(message: &str) -> AdapterError {
    AdapterError::NotFound(message.to_owned())
}

fn output<const N: usize>(
    result: &impl Serialize,
    facts: [(&str, Value); N],
) -> Result<ToolOutput, AdapterError> {
    // Fails for no result of ours: all of them are structs with text keys.
    let Ok(Value::Object(structured)) = serde_json::to_value(result) else {
        return Err(AdapterError::Malformed);
    };
    let facts: Map<_, _> = facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect();
    Ok(ToolOutput::with_facts(structured, facts))
}
