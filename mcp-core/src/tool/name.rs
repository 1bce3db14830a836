//! Tool names and their two spellings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of adapter, and so of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    /// Proxmox VE.
    Proxmox,
    /// A Linux host behind a relay agent.
    Ssh,
    /// GitHub or GitHub Enterprise Server.
    Github,
    /// Gitea or Forgejo.
    Gitea,
}

impl AdapterKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Proxmox, Self::Ssh, Self::Github, Self::Gitea];

    /// The name in the database, in JSON and before the dot of a tool's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proxmox => "proxmox",
            Self::Ssh => "ssh",
            Self::Github => "github",
            Self::Gitea => "gitea",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! tools {
    ($($(#[$doc:meta])* $variant:ident: $kind:ident, $dotted:literal, $wire:literal;)*) => {
        /// The closed set of tools. A name outside it cannot be spelled past [`ToolName::parse`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ToolName {
            $($(#[$doc])* $variant,)*
        }

        impl ToolName {
            /// The nine, in their fixed order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The canonical dotted name, used everywhere inside.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $dotted,)* }
            }

            /// The name on MCP and LLM wires, where dots are not allowed (SPEC §7).
            #[must_use]
            pub const fn wire(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The kind of adapter that serves the tool.
            #[must_use]
            pub const fn kind(self) -> AdapterKind {
                match self { $(Self::$variant => AdapterKind::$kind,)* }
            }
        }
    };
}

tools! {
    /// Virtual machines and containers of one node.
    ProxmoxListVms: Proxmox, "proxmox.list_vms", "proxmox__list_vms";
    /// State of one virtual machine or container.
    ProxmoxGetVmStatus: Proxmox, "proxmox.get_vm_status", "proxmox__get_vm_status";
    /// Load, memory and disk of one node.
    ProxmoxGetNodeMetrics: Proxmox, "proxmox.get_node_metrics", "proxmox__get_node_metrics";
    /// One of six read-only commands on a Linux host.
    SshRunWhitelistedCommand: Ssh, "ssh.run_whitelisted_command", "ssh__run_whitelisted_command";
    /// Repositories that the token can see.
    GithubListRepos: Github, "github.list_repos", "github__list_repos";
    /// Recent workflow runs of one repository.
    GithubGetRecentCiRuns: Github, "github.get_recent_ci_runs", "github__get_recent_ci_runs";
    /// One workflow run.
    GithubGetWorkflowRun: Github, "github.get_workflow_run", "github__get_workflow_run";
    /// Repositories that the token can see.
    GiteaListRepos: Gitea, "gitea.list_repos", "gitea__list_repos";
    /// Recent workflow runs of one repository.
    GiteaGetRecentCiRuns: Gitea, "gitea.get_recent_ci_runs", "gitea__get_recent_ci_runs";
}

impl ToolName {
    /// The tool of this name, in either spelling, byte for byte: no trimming, no folding of case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tool| tool.as_str() == text || tool.wire() == text)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: X-06
    #[test]
    fn both_spellings_name_the_same_tool_and_the_wire_one_is_safe_everywhere() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::parse(tool.as_str()), Some(*tool));
            assert_eq!(ToolName::parse(tool.wire()), Some(*tool));
            assert_eq!(tool.wire(), tool.as_str().replace('.', "__"));
            assert!(tool.wire().len() <= 64);
            assert!(tool.wire().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            assert!(tool.as_str().starts_with(tool.kind().as_str()));
        }
    }

    // proves: C-F01
    #[test]
    fn near_misses_are_not_in_the_registry() {
        for text in [
            "proxmox.delete_vm",
            "PROXMOX.LIST_VMS",
            "proxmox.list_vms\0",
            "proxmox.list_vms ",
            " proxmox.list_vms",
            "proxmox.\u{217c}ist_vms",
            "proxmox_list_vms",
            "proxmox.list_vms.extra",
            "gitea.get_workflow_run",
            "",
        ] {
            assert_eq!(ToolName::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_the_eighteen_spellings_parses(text in "[a-z._]{1,40}") {
            if let Some(tool) = ToolName::parse(&text) {
                prop_assert!(text == tool.as_str() || text == tool.wire());
            }
        }
    }
}
