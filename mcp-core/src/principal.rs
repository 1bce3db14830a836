//! Who asks, and what they may do.
//!
//! This crate knows *grants*, not roles: which role carries which grants is the table in `identity`.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::id::{KeyId, PrincipalId, TargetId, TenantId};
use crate::tool::ToolName;

macro_rules! actions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Everything a request can ask to do. Every route and every door names one of these literally.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $($(#[$doc])* $variant,)*
        }

        impl Action {
            /// Every action, in the order of the committed role table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that logs, audit and the role table use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    /// See who one is.
    MeRead = "me.read",
    /// List the tools one may call.
    ToolsList = "tools.list",
    /// Invoke a tool.
    ToolsInvoke = "tools.invoke",
    /// Speak MCP. What one may list and call there, the other actions decide.
    McpConnect = "mcp.connect",
    /// Attach to the stream of a call of one's own.
    CallsRead = "calls.read",
    /// See which tools the tenant has switched off.
    ToolPolicyRead = "tool_policy.read",
    /// Switch tools off and on again.
    ToolPolicyWrite = "tool_policy.write",
    /// List targets and their state.
    TargetsRead = "targets.read",
    /// Make an enrolment token for a relay agent.
    TargetsEnroll = "targets.enroll",
    /// Revoke a target's agent.
    TargetsRevoke = "targets.revoke",
    /// See how adapters are configured (never their credentials).
    AdaptersRead = "adapters.read",
    /// Configure, change and remove adapters.
    AdaptersWrite = "adapters.write",
    /// Check an adapter against its upstream.
    AdaptersTest = "adapters.test",
    /// List API keys (never their secrets).
    KeysRead = "keys.read",
    /// Make API keys.
    KeysCreate = "keys.create",
    /// Revoke API keys.
    KeysRevoke = "keys.revoke",
    /// Read audit rows.
    AuditRead = "audit.read",
    /// Verify the audit chain.
    AuditVerify = "audit.verify",
    /// Export audit rows.
    AuditExport = "audit.export",
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// All of a kind, or only those named. Naming none means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope<T: Ord> {
    /// Not narrowed.
    All,
    /// Narrowed to these.
    Only(BTreeSet<T>),
}

impl<T: Ord> Scope<T> {
    /// Whether the scope contains `item`.
    pub fn covers(&self, item: &T) -> bool {
        match self {
            Self::All => true,
            Self::Only(items) => items.contains(item),
        }
    }
}

/// What a principal may do. The empty grants cover nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    actions: BTreeSet<Action>,
    tools: Scope<ToolName>,
    targets: Scope<TargetId>,
}

impl Grants {
    /// Grants for these actions, on every tool and target.
    #[must_use]
    pub fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        Self { actions: actions.into_iter().collect(), tools: Scope::All, targets: Scope::All }
    }

    /// Nothing at all.
    #[must_use]
    pub fn none() -> Self {
        Self::new([])
    }

    /// The same grants, narrowed to some tools.
    #[must_use]
    pub fn narrowed_to_tools(mut self, tools: Scope<ToolName>) -> Self {
        self.tools = tools;
        self
    }

    /// The same grants, narrowed to some targets.
    #[must_use]
    pub fn narrowed_to_targets(mut self, targets: Scope<TargetId>) -> Self {
        self.targets = targets;
        self
    }

    /// Whether the action is granted at all.
    #[must_use]
    pub fn cover_action(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Whether the tool lies within the grants.
    #[must_use]
    pub fn cover_tool(&self, tool: ToolName) -> bool {
        self.tools.covers(&tool)
    }

    /// Whether the grants are narrowed to some targets.
    #[must_use]
    pub fn is_narrowed_to_targets(&self) -> bool {
        matches!(self.targets, Scope::Only(_))
    }

    /// Whether the target lies within the grants.
    #[must_use]
    pub fn cover_target(&self, target: TargetId) -> bool {
        self.targets.covers(&target)
    }
}

/// An authenticated caller. Made by `identity` for one request; never stored, never taken from a client.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The one tenant this caller acts in.
    pub tenant: TenantId,
    /// The person or service behind the credential.
    pub id: PrincipalId,
    /// The API key in use, when it was one.
    pub key: Option<KeyId>,
    /// The role's name at this moment, for audit and display. Decisions use [`Principal::grants`].
    pub role: &'static str,
    /// What the caller may do.
    pub grants: Grants,
}

/// A principal as audit rows and `/api/me` show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrincipalView {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The person or service.
    pub principal_id: PrincipalId,
    /// The API key in use, when it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    /// The role's name.
    pub role: &'static str,
}

impl From<&Principal> for PrincipalView {
    fn from(principal: &Principal) -> Self {
        Self {
            tenant_id: principal.tenant,
            principal_id: principal.id,
            key_id: principal.key,
            role: principal.role,
        }
    }
}
