//! The nine tools: their names, definitions and argument types. There is no tenth (INV-5).

pub mod budget;
mod define;
pub mod gitea;
pub mod github;
mod name;
pub mod proxmox;
mod schema;
pub mod ssh;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::define::{ArgumentError, ToolDefinition};
pub use self::name::{AdapterKind, ToolName};
use crate::document::Document;

/// The nine definitions, in the fixed order in which every list shows them.
#[must_use]
pub fn catalogue() -> &'static [ToolDefinition] {
    static CATALOGUE: LazyLock<Vec<ToolDefinition>> =
        LazyLock::new(|| ToolName::ALL.iter().map(|name| define::definition(*name)).collect());
    &CATALOGUE
}

/// What a tool answered, before it is wrapped for a door.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The data; it fits the tool's output schema.
    pub structured: Document,
    /// Facts about the answer that the audit row keeps in place of the answer itself: exit code, digest, length.
    pub facts: Map<String, Value>,
}

impl ToolOutput {
    /// An output without audit facts.
    #[must_use]
    pub fn new(structured: Map<String, Value>) -> Self {
        Self::with_facts(structured, Map::new())
    }

    /// An output with facts for the audit row.
    #[must_use]
    pub fn with_facts(structured: Map<String, Value>, facts: Map<String, Value>) -> Self {
        Self { structured: structured.into(), facts }
    }
}

/// What every list says beside its items.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extent {
    /// True when items were left out.
    pub truncated: bool,
    /// How many items were left out, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u64>,
    /// How to ask for less or for the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Age of a cached answer in whole seconds; absent when it was fetched for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_age_sec: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: REQ-015, M-14, T-10
    #[test]
    fn the_registry_is_exactly_these_nine_tools() {
        let shown: Vec<_> = catalogue().iter().map(|tool| (tool.name.as_str(), tool.is_inventory)).collect();
        assert_eq!(
            shown,
            [
                ("proxmox.list_vms", true),
                ("proxmox.get_vm_status", false),
                ("proxmox.get_node_metrics", false),
                ("ssh.run_whitelisted_command", false),
                ("github.list_repos", true),
                ("github.get_recent_ci_runs", false),
                ("github.get_workflow_run", false),
                ("gitea.list_repos", true),
                ("gitea.get_recent_ci_runs", false),
            ]
        );
    }

    // proves: RT-12
    #[test]
    fn the_schemas_are_as_committed() {
        let schemas: Vec<_> = catalogue().iter().map(crate::mcp::Tool::canonical).collect();
        insta::assert_snapshot!("catalogue", serde_json::to_string_pretty(&schemas).expect("json"));
    }
}
