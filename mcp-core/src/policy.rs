//! Who may do what: pure functions that return evidence.
//!
//! A call passes `authorize → decide → bind`, and each step consumes what the one before it returned. An adapter takes
//! a [`PermittedCall`], whose fields are private, so a call that skipped a step does not compile.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::adapter::Target;
use crate::audit::Receipt;
use crate::error::CallError;
use crate::id::CorrelationId;
use crate::principal::{Action, Principal};
use crate::tool::{AdapterKind, ToolName};

/// Evidence that the principal's grants cover an action.
#[derive(Debug, Clone)]
pub struct Authorized {
    principal: Arc<Principal>,
    action: Action,
}

/// Checks the role. The narrowing of a key to tools and targets comes later, in [`decide`] and [`Permit::covers`].
///
/// # Errors
/// [`CallError::Forbidden`] when the grants do not cover `action`.
pub fn authorize(principal: Arc<Principal>, action: Action) -> Result<Authorized, CallError> {
    if principal.grants.cover_action(action) {
        Ok(Authorized { principal, action })
    } else {
        Err(CallError::Forbidden)
    }
}

impl Authorized {
    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

/// What a tenant has switched off. A policy can only take away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    disabled: BTreeSet<ToolName>,
}

impl ToolPolicy {
    /// A policy that switches these tools off.
    #[must_use]
    pub fn disabling(disabled: impl IntoIterator<Item = ToolName>) -> Self {
        Self { disabled: disabled.into_iter().collect() }
    }

    /// Whether the tool is on.
    #[must_use]
    pub fn allows(&self, tool: ToolName) -> bool {
        !self.disabled.contains(&tool)
    }

    /// The tools that are off.
    pub fn disabled(&self) -> impl Iterator<Item = ToolName> + '_ {
        self.disabled.iter().copied()
    }
}

/// Refuses arguments by their meaning, before an adapter is looked for. The SSH whitelist is one.
///
/// Arguments of the wrong type pass: the schema names them better, one stage later.
pub trait Screen: Send + Sync {
    /// # Errors
    /// One sentence on what is refused and what would be accepted.
    fn screen(&self, args: &Map<String, Value>) -> Result<(), String>;
}

/// Evidence that role, registry, tenant policy and blocklist allow this tool with these arguments.
#[derive(Debug)]
pub struct Permit {
    principal: Arc<Principal>,
    tool: ToolName,
    args: Map<String, Value>,
}

/// Decides about one tool call.
///
/// # Errors
/// `WriteRejected` for anything that asks for a change, `ToolNotInRegistry` for any other unknown name (also for a tool
/// outside the key's narrowing: what one may not call is not there), `ToolDisabled`, `CommandNotWhitelisted`.
pub fn decide(
    authorized: Authorized,
    name: &str,
    args: Map<String, Value>,
    policy: &ToolPolicy,
    screen: Option<&dyn Screen>,
) -> Result<Permit, CallError> {
    if authorized.action != Action::ToolsInvoke {
        return Err(CallError::Forbidden);
    }
    let Some(tool) = ToolName::parse(name) else {
        return Err(if names_a_write(name) {
            CallError::WriteRejected
        } else {
            CallError::ToolNotInRegistry
        });
    };
    if asks_for_a_write(&args) {
        return Err(CallError::WriteRejected);
    }
    if !authorized.principal.grants.cover_tool(tool) {
        return Err(CallError::ToolNotInRegistry);
    }
    if !policy.allows(tool) {
        return Err(CallError::ToolDisabled);
    }
    if let Some(screen) = screen {
        screen.screen(&args).map_err(CallError::CommandNotWhitelisted)?;
    }
    Ok(Permit { principal: authorized.principal, tool, args })
}

/// Verbs that no adapter offers. The list only decides how a refusal is worded: a name outside the registry is refused
/// either way.
const WRITE_VERBS: &[&str] = &[
    "add", "apply", "approve", "cancel", "clone", "close", "create", "delete", "destroy", "disable", "edit",
    "enable", "exec", "execute", "install", "kill", "merge", "migrate", "move", "patch", "post", "push",
    "put", "reboot", "remove", "rename", "replace", "rerun", "reset", "restart", "restore", "resume",
    "revoke", "rollback", "set", "shutdown", "start", "stop", "suspend", "trigger", "update", "upload",
    "write",
];

fn names_a_write(name: &str) -> bool {
    let tail = AdapterKind::ALL.iter().find_map(|kind| {
        let tail = name.strip_prefix(kind.as_str())?;
        tail.strip_prefix('.').or_else(|| tail.strip_prefix("__"))
    });
    tail.is_some_and(|tail| {
        tail.split(['_', '.', '-']).next().is_some_and(|verb| WRITE_VERBS.contains(&verb))
    })
}

/// An HTTP method smuggled among the arguments. The client that adapters hold cannot spell one, and no schema has such
/// a field; refusing here makes the attempt visible as what it is (REQ-018).
fn asks_for_a_write(args: &Map<String, Value>) -> bool {
    ["method", "http_method", "httpMethod", "verb"].iter().any(|key| {
        args.get(*key).and_then(Value::as_str).is_some_and(|method| {
            ["POST", "PUT", "PATCH", "DELETE"].iter().any(|write| method.eq_ignore_ascii_case(write))
        })
    })
}

impl Permit {
    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Which tool.
    #[must_use]
    pub fn tool(&self) -> ToolName {
        self.tool
    }

    /// The arguments as given.
    #[must_use]
    pub fn args(&self) -> &Map<String, Value> {
        &self.args
    }

    /// Whether the target lies within the principal's tenant and grants, and is of the tool's kind.
    #[must_use]
    pub fn covers(&self, target: &Target) -> bool {
        target.tenant == self.principal.tenant
            && target.kind == self.tool.kind()
            && self.principal.grants.cover_target(target.id)
    }

    /// Binds the permit to its target and to the receipt of its committed intent.
    ///
    /// # Errors
    /// [`CallError::TargetNotFound`] when the permit does not cover the target. [`CallError::Internal`] when the receipt
    /// belongs to another tenant's chain.
    pub fn bind(
        self,
        correlation: CorrelationId,
        target: Target,
        intent: Receipt,
    ) -> Result<PermittedCall, CallError> {
        if !self.covers(&target) {
            return Err(CallError::TargetNotFound);
        }
        if intent.tenant != self.principal.tenant {
            return Err(CallError::Internal);
        }
        Ok(PermittedCall { permit: self, correlation, target, intent })
    }
}

/// One call that may now leave the building: decided, routed, and written down. Good for one run.
#[derive(Debug)]
pub struct PermittedCall {
    permit: Permit,
    correlation: CorrelationId,
    target: Target,
    intent: Receipt,
}

impl PermittedCall {
    /// Which tool.
    #[must_use]
    pub fn tool(&self) -> ToolName {
        self.permit.tool
    }

    /// The arguments; they fit the tool's schema.
    #[must_use]
    pub fn args(&self) -> &Map<String, Value> {
        &self.permit.args
    }

    /// What is looked at.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The call's id.
    #[must_use]
    pub fn correlation(&self) -> CorrelationId {
        self.correlation
    }

    /// The receipt of the committed intent.
    #[must_use]
    pub fn intent(&self) -> Receipt {
        self.intent
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::id::{PrincipalId, TargetId, TenantId};
    use crate::principal::{Grants, Scope};

    fn principal(grants: Grants) -> Arc<Principal> {
        Arc::new(Principal {
            tenant: TenantId::from_uuid(Uuid::from_u128(1)),
            id: PrincipalId::from_uuid(Uuid::from_u128(2)),
            key: None,
            role: "operator",
            grants,
        })
    }

    fn decided(grants: Grants, tool: &str, args: Value, policy: &ToolPolicy) -> Result<Permit, CallError> {
        let authorized = authorize(principal(grants), Action::ToolsInvoke)?;
        decide(authorized, tool, args.as_object().expect("an object").clone(), policy, None)
    }

    fn invoker() -> Grants {
        Grants::new([Action::ToolsInvoke])
    }

    // proves: S-09
    #[test]
    fn empty_grants_cover_nothing() {
        for action in Action::ALL {
            assert_eq!(authorize(principal(Grants::none()), *action).err(), Some(CallError::Forbidden));
        }
    }

    #[test]
    fn evidence_for_one_action_is_not_evidence_for_another() {
        let lister = principal(Grants::new([Action::ToolsList]));
        let authorized = authorize(lister, Action::ToolsList).expect("granted");
        let refused = decide(authorized, "github.list_repos", Map::new(), &ToolPolicy::default(), None);
        assert_eq!(refused.err(), Some(CallError::Forbidden));
    }

    // proves: B-01, B-03, B-04, REQ-018
    #[test]
    fn writes_are_refused_as_writes_and_strangers_as_unknown() {
        let code = |tool: &str, args: Value| {
            decided(invoker(), tool, args, &ToolPolicy::default()).expect_err("refused").code().as_str()
        };
        for tool in
            ["proxmox.delete_vm", "proxmox__start_vm", "github.create_issue", "gitea.merge_pull", "ssh.exec"]
        {
            assert_eq!(code(tool, json!({})), "write_rejected", "{tool}");
        }
        for tool in ["proxmox.get_everything", "aws.list_buckets", "ssh", "started.set"] {
            assert_eq!(code(tool, json!({})), "tool_not_in_registry", "{tool}");
        }
        for method in ["POST", "put", "Delete", "PATCH"] {
            for tool in ToolName::ALL {
                assert_eq!(
                    code(tool.as_str(), json!({"method": method})),
                    "write_rejected",
                    "{tool} {method}"
                );
            }
        }
    }

    // proves: T-15
    #[test]
    fn a_tool_that_is_off_or_outside_the_key_is_refused() {
        let policy = ToolPolicy::disabling([ToolName::GithubListRepos]);
        let off = decided(invoker(), "github.list_repos", json!({}), &policy);
        assert_eq!(off.err(), Some(CallError::ToolDisabled));

        let narrowed = invoker().narrowed_to_tools(Scope::Only([ToolName::GiteaListRepos].into()));
        let outside = decided(narrowed.clone(), "github.list_repos", json!({}), &ToolPolicy::default());
        assert_eq!(outside.err(), Some(CallError::ToolNotInRegistry));
        assert!(decided(narrowed, "gitea__list_repos", json!({}), &ToolPolicy::default()).is_ok());
    }

    #[test]
    fn a_permit_binds_only_to_a_target_of_its_own_tenant_kind_and_scope() {
        let mine = TargetId::from_uuid(Uuid::from_u128(7));
        let tenant = TenantId::from_uuid(Uuid::from_u128(1));
        let other_tenant = TenantId::from_uuid(Uuid::from_u128(9));
        let target = |tenant, kind| Target { tenant, id: mine, name: "db-1".to_owned(), kind };
        let permit = |scope| {
            let grants = invoker().narrowed_to_targets(scope);
            decided(grants, "github.list_repos", json!({}), &ToolPolicy::default()).expect("decided")
        };
        let call = CorrelationId::from_uuid(Uuid::from_u128(3));
        let receipt = |tenant| Receipt { tenant, seq: 1, hash: [0; 32] };

        let good = permit(Scope::All).bind(call, target(tenant, AdapterKind::Github), receipt(tenant));
        assert!(good.is_ok());
        for refused in [
            permit(Scope::All).bind(call, target(other_tenant, AdapterKind::Github), receipt(tenant)),
            permit(Scope::All).bind(call, target(tenant, AdapterKind::Gitea), receipt(tenant)),
            permit(Scope::Only([].into())).bind(call, target(tenant, AdapterKind::Github), receipt(tenant)),
            permit(Scope::All).bind(call, target(tenant, AdapterKind::Github), receipt(other_tenant)),
        ] {
            assert!(refused.is_err());
        }
    }
}
