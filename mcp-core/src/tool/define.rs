//! A tool's definition, derived from its argument and output types.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::name::ToolName;
use super::{gitea, github, proxmox, schema, ssh};

/// Everything the registry knows about one tool.
#[derive(Debug)]
pub struct ToolDefinition {
    /// Which of the nine.
    pub name: ToolName,
    /// A short name for people.
    pub title: &'static str,
    /// What it answers, for a model that must choose.
    pub description: &'static str,
    /// True for slow-moving lists, which may be cached for 60 s. Decides about caching; annotations never do.
    pub is_inventory: bool,
    /// JSON Schema of the arguments, in the subset that every LLM API accepts.
    pub input_schema: Value,
    /// JSON Schema of the structured result; open, with an object at its root.
    pub output_schema: Value,
    typed_check: fn(&Map<String, Value>) -> Result<(), String>,
}

/// The arguments fit the schema's words but not the type behind it (`1e3` where an integer is meant).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

impl ToolDefinition {
    /// Checks arguments against the Rust type that the schema was derived from. JSON Schema takes `1000.0` for an
    /// integer; the type does not.
    ///
    /// # Errors
    /// [`ArgumentError`] with the deserialiser's words.
    pub fn check_types(&self, args: &Map<String, Value>) -> Result<(), ArgumentError> {
        (self.typed_check)(args).map_err(ArgumentError)
    }
}

pub(super) fn definition(name: ToolName) -> ToolDefinition {
    match name {
        ToolName::ProxmoxListVms => define::<proxmox::ListVmsArgs, proxmox::VmList>(
            name,
            "List VMs and containers",
            "Lists the virtual machines and containers of one Proxmox VE node with state, CPU and memory.",
            true,
        ),
        ToolName::ProxmoxGetVmStatus => define::<proxmox::GetVmStatusArgs, proxmox::VmStatus>(
            name,
            "VM or container status",
            "Shows the current state of one virtual machine or container of a Proxmox VE node.",
            false,
        ),
        ToolName::ProxmoxGetNodeMetrics => define::<proxmox::GetNodeMetricsArgs, proxmox::NodeMetrics>(
            name,
            "Node metrics",
            "Shows load, CPU, memory, root disk and versions of one Proxmox VE node.",
            false,
        ),
        ToolName::SshRunWhitelistedCommand => define::<ssh::RunCommandArgs, ssh::CommandOutput>(
            name,
            "Run a read-only command",
            "Runs one of six read-only commands on a Linux host: `uptime`, `df -h`, `free -m`, \
             `systemctl status <unit>`, `journalctl -n <1..500>`, `systemctl list-units --type=service`.",
            false,
        ),
        ToolName::GithubListRepos => define::<github::ListReposArgs, github::RepoList>(
            name,
            "List GitHub repositories",
            "Lists the repositories that the configured GitHub token can see.",
            true,
        ),
        ToolName::GithubGetRecentCiRuns => define::<github::GetRecentCiRunsArgs, github::CiRunList>(
            name,
            "Recent GitHub Actions runs",
            "Lists recent GitHub Actions workflow runs of one repository, newest first.",
            false,
        ),
        ToolName::GithubGetWorkflowRun => define::<github::GetWorkflowRunArgs, github::CiRun>(
            name,
            "One GitHub Actions run",
            "Shows one GitHub Actions workflow run of a repository.",
            false,
        ),
        ToolName::GiteaListRepos => define::<gitea::ListReposArgs, gitea::RepoList>(
            name,
            "List Gitea repositories",
            "Lists the repositories that the configured Gitea or Forgejo token can see.",
            true,
        ),
        ToolName::GiteaGetRecentCiRuns => define::<gitea::GetRecentCiRunsArgs, gitea::CiRunList>(
            name,
            "Recent Gitea Actions runs",
            "Lists recent Actions runs of one Gitea or Forgejo repository, newest first.",
            false,
        ),
    }
}

fn define<Args, Output>(
    name: ToolName,
    title: &'static str,
    description: &'static str,
    is_inventory: bool,
) -> ToolDefinition
where
    Args: JsonSchema + DeserializeOwned,
    Output: JsonSchema,
{
    ToolDefinition {
        name,
        title,
        description,
        is_inventory,
        input_schema: schema::input::<Args>(),
        output_schema: schema::output::<Output>(),
        typed_check: |args| Args::deserialize(args).map(drop).map_err(|error| error.to_string()),
    }
}
