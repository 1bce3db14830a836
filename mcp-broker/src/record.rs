//! What a call writes into the audit log, stage by stage (SPEC §4 and §10).

use std::time::Duration;

use mcp_core::adapter::Target;
use mcp_core::audit::{AuditEvent, Body, EventType, Link, Receipt};
use mcp_core::error::{AdapterError, CallError, ErrorCode};
use mcp_core::id::{CorrelationId, EventId, InstanceId};
use mcp_core::policy::Permit;
use mcp_core::principal::{Action, Principal};
use mcp_core::tool::{ToolName, ToolOutput};
use serde_json::{Map, Value};
use ulid::Ulid;

use crate::cancel::CancelReason;

/// How a call ended, as its outcome row tells it.
pub(crate) struct Ended<'a> {
    pub(crate) result: Result<&'a ToolOutput, &'a CallError>,
    pub(crate) cancelled: Option<CancelReason>,
    pub(crate) cached: bool,
    pub(crate) took: Duration,
}

/// What every row about one call repeats.
#[derive(Debug, Clone)]
pub(crate) struct CallRecord {
    pub(crate) correlation: CorrelationId,
    pub(crate) instance: InstanceId,
}

impl CallRecord {
    /// The row before the call leaves the building.
    pub(crate) fn intent(&self, permit: &Permit, target: &Target) -> AuditEvent {
        let principal = permit.principal();
        let body = self
            .call_body(principal)
            .public("phase", "started")
            .public("tool", permit.tool().as_str())
            .public("targetId", target.id)
            .public("instance", self.instance)
            .public("args", auditable(permit.tool(), permit.args()))
            .sensitive("argsDigest", permit.args());
        let link = Link::Intent { correlation: self.correlation, instance: self.instance };
        event(principal, EventType::CapabilityInvoked, body, link)
    }

    /// The row that closes the intent.
    pub(crate) fn outcome(
        &self,
        principal: &Principal,
        tool: ToolName,
        target: &Target,
        ended: &Ended<'_>,
    ) -> AuditEvent {
        let Ended { result, cancelled, cached, took } = *ended;
        let mut body = self
            .call_body(principal)
            .public("phase", "finished")
            .public("tool", tool.as_str())
            .public("targetId", target.id)
            .public("instance", self.instance)
            .public("result", outcome_word(result, cancelled))
            .public("durationMs", u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
            .public("cached", cached);
        match result {
            Ok(output) => {
                body = body.public("bytes", output.structured.json().len()).public("facts", &output.facts);
            }
            Err(error) => body = body.public("code", error.code().as_str()),
        }
        if let Some(reason) = cancelled {
            body = body.public("reason", reason.as_str());
        }
        event(principal, EventType::CapabilityInvoked, body, Link::Outcome { correlation: self.correlation })
    }

    /// The row of a call that was refused before it could leave; `None` where SPEC §4 writes nothing here.
    pub(crate) fn refusal(&self, principal: &Principal, tool: &str, error: &CallError) -> Option<AuditEvent> {
        let event_type = match error {
            CallError::ToolNotInRegistry
            | CallError::WriteRejected
            | CallError::ToolDisabled
            | CallError::CommandNotWhitelisted(_) => EventType::WriteRejected,
            CallError::InvalidArguments { .. }
            | CallError::TargetNotFound
            | CallError::TargetOffline
            | CallError::AmbiguousTarget(_) => EventType::CapabilityInvoked,
            // Counters, or a summary elsewhere; and nothing can be written down while nothing can be written.
            CallError::Forbidden
            | CallError::RateLimited { .. }
            | CallError::InFlightLimit { .. }
            | CallError::Adapter(_)
            | CallError::AuditUnavailable
            | CallError::DatabaseUnavailable
            | CallError::SecretUnavailable
            | CallError::Cancelled
            | CallError::ShuttingDown
            | CallError::Internal => return None,
        };
        let body = self
            .call_body(principal)
            .public("phase", "refused")
            .public("code", error.code().as_str())
            .public("reason", refusal_reason(error))
            // The name is the caller's own text: kept readable where it is one of ours, bounded otherwise.
            .public("tool", bounded(tool));
        Some(event(principal, event_type, body, Link::Fact))
    }

    /// The row of a message whose headers named another method or tool than its body did.
    pub(crate) fn mismatch(&self, principal: &Principal, tool: &str) -> AuditEvent {
        let body = self
            .call_body(principal)
            .public("phase", "refused")
            .public("code", ErrorCode::InvalidRequest.as_str())
            .public("reason", "header_mismatch")
            .public("tool", bounded(tool));
        event(principal, EventType::CapabilityInvoked, body, Link::Fact)
    }

    /// The second row of a call that only the agent's own whitelist refused.
    pub(crate) fn rejected_by_agent(
        &self,
        principal: &Principal,
        tool: ToolName,
        target: &Target,
    ) -> AuditEvent {
        let body = self
            .call_body(principal)
            .public("phase", "refused")
            .public("code", AdapterError::RejectedByAgent.code().as_str())
            .public("reason", "rejected_by_agent")
            .public("tool", tool.as_str())
            .public("targetId", target.id);
        event(principal, EventType::WriteRejected, body, Link::Fact)
    }

    fn call_body(&self, principal: &Principal) -> Body {
        principal_body(principal).public("correlationId", self.correlation)
    }
}

/// The row of a role that lacked an action.
pub(crate) fn rbac_denied(principal: &Principal, action: Action) -> AuditEvent {
    let body = principal_body(principal).public("action", action.as_str());
    event(principal, EventType::RbacDenied, body, Link::Fact)
}

fn principal_body(principal: &Principal) -> Body {
    let body = Body::new().public("userId", principal.id).public("role", principal.role);
    match principal.key {
        Some(key) => body.public("keyId", key),
        None => body,
    }
}

fn event(principal: &Principal, event_type: EventType, body: Body, link: Link) -> AuditEvent {
    let id = EventId::from_ulid(Ulid::generate());
    AuditEvent { id, tenant: principal.tenant, event_type, body, link }
}

/// The arguments that an auditor may read: names of machines, repositories and the six commands. All have passed their
/// schema, so none is free text; a branch name is the exception and is left to the digest.
fn auditable(tool: ToolName, args: &Map<String, Value>) -> Map<String, Value> {
    let readable: &[&str] = match tool {
        ToolName::ProxmoxListVms | ToolName::ProxmoxGetNodeMetrics => &["node"],
        ToolName::ProxmoxGetVmStatus => &["node", "vmid"],
        ToolName::SshRunWhitelistedCommand => &["command"],
        ToolName::GithubListRepos | ToolName::GiteaListRepos => &[],
        ToolName::GithubGetRecentCiRuns => &["owner", "repo", "per_page", "status"],
        ToolName::GithubGetWorkflowRun => &["owner", "repo", "run_id"],
        ToolName::GiteaGetRecentCiRuns => &["owner", "repo", "limit"],
    };
    args.iter()
        .filter(|(key, _)| readable.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn outcome_word(result: Result<&ToolOutput, &CallError>, cancelled: Option<CancelReason>) -> &'static str {
    match (result, cancelled) {
        (Ok(_), _) => "success",
        (Err(_), Some(CancelReason::Shutdown)) => "interrupted",
        (Err(_), Some(_)) => "cancelled",
        (Err(CallError::Adapter(AdapterError::Timeout)), None) => "timeout",
        (Err(CallError::Adapter(AdapterError::RejectedByAgent)), None) => "rejected",
        (Err(_), None) => "failure",
    }
}

fn refusal_reason(error: &CallError) -> &'static str {
    match error {
        CallError::ToolDisabled => "disabled",
        CallError::ToolNotInRegistry => "not_in_registry",
        other => other.code().as_str(),
    }
}

fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// A receipt as an event of a stream shows it.
pub(crate) fn receipt_text(receipt: Option<Receipt>) -> Value {
    receipt.map_or(Value::Null, |receipt| Value::from(receipt.to_string()))
}
