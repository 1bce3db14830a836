//! What the check makes of a token's permissions (REQ-025).

use mcp_core::check::{CheckStep, StepName};
use mcp_core::error::ErrorCode;

use crate::permissions::{Excess, Permissions, Reach};

/// Privileges named in a message. The largest role of Proxmox VE has fewer.
const MAX_NAMED: usize = 60;

const GRANT: &str =
    "grant the role PVEAuditor on / to the user, and to the token as well when its privileges are separated";
const REDUCE: &str =
    "create a token whose only role is PVEAuditor; an admin can accept this one with allow_overprivileged";

/// The step, and the code when it failed.
pub(crate) struct Verdict {
    pub(crate) step: CheckStep,
    pub(crate) code: Option<ErrorCode>,
    /// Each privilege that allows more than reading, with the paths where it is held.
    pub(crate) excess: Vec<String>,
}

impl Verdict {
    /// A token must be able to do its work, and nothing else.
    pub(crate) fn of(held: &Permissions, allow_overprivileged: bool) -> Self {
        let too_much = held.excess();
        let (step, code) = if held.is_empty() {
            let message =
                "the token has no permissions at all: a token with separated privileges starts with none";
            (CheckStep::fail(StepName::Permissions, message, GRANT), Some(ErrorCode::PveRoleMissing))
        } else if let Some(missing) = missing(held) {
            (CheckStep::fail(StepName::Permissions, missing, GRANT), Some(ErrorCode::PveRoleMissing))
        } else if !too_much.is_empty() && allow_overprivileged {
            (CheckStep::warn(StepName::Permissions, more_than_reading(&too_much), REDUCE), None)
        } else if !too_much.is_empty() {
            let step = CheckStep::fail(StepName::Permissions, more_than_reading(&too_much), REDUCE);
            (step, Some(ErrorCode::PveOverprivileged))
        } else {
            (reading(held), None)
        };
        let excess = too_much.iter().map(Excess::describe).collect();
        Self { step, code, excess }
    }
}

fn missing(held: &Permissions) -> Option<String> {
    let needed = [("Sys.Audit", "nodes", held.nodes()), ("VM.Audit", "guests", held.guests())];
    let missing: Vec<_> = needed
        .iter()
        .filter(|(_, _, reach)| *reach == Reach::Nowhere)
        .map(|(privilege, of, _)| format!("{privilege} (for {of})"))
        .collect();
    (!missing.is_empty()).then(|| format!("the token lacks {}", missing.join(" and ")))
}

fn more_than_reading(excess: &[Excess]) -> String {
    let named: Vec<_> = excess.iter().take(MAX_NAMED).map(Excess::describe).collect();
    let more = match excess.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("the token may do more than read: {}{more}", named.join("; "))
}

fn reading(held: &Permissions) -> CheckStep {
    let part = match (held.nodes(), held.guests()) {
        (Reach::All, Reach::All) => {
            return CheckStep::ok(
                StepName::Permissions,
                "the token can read nodes and guests, and nothing more",
            );
        }
        (Reach::All, _) => "guests",
        (_, Reach::All) => "nodes",
        _ => "nodes and guests",
    };
    CheckStep::warn(
        StepName::Permissions,
        format!("the token can only read, and only some {part}; the others stay hidden"),
        GRANT,
    )
}

#[cfg(test)]
mod tests {
    use mcp_core::check::StepStatus;
    use serde_json::json;

    use super::*;

    // proves: REQ-025, X2-05
    #[test]
    fn a_token_must_do_its_work_and_nothing_else() {
        let reader = json!({"/": {"Sys.Audit": 1, "VM.Audit": 1}});
        let writer =
            json!({"/": {"Sys.Audit": 1, "VM.Audit": 1, "VM.PowerMgmt": 1}, "/vms": {"VM.Allocate": 0}});
        let half_writer = json!({"/": {"VM.Audit": 1, "VM.PowerMgmt": 1}});
        let narrow = json!({"/nodes/pve1": {"Sys.Audit": 1}, "/vms": {"VM.Audit": 1}});
        let (missing, excess) = (Some(ErrorCode::PveRoleMissing), Some(ErrorCode::PveOverprivileged));
        for (map, allow, status, code, says) in [
            (json!({}), false, StepStatus::Fail, missing, "no permissions"),
            (reader, false, StepStatus::Ok, None, "nothing more"),
            (json!({"/": {"Sys.Audit": 1}}), false, StepStatus::Fail, missing, "lacks VM.Audit"),
            (json!({"/": {"VM.Audit": 1}}), true, StepStatus::Fail, missing, "lacks Sys.Audit"),
            (half_writer, true, StepStatus::Fail, missing, "lacks Sys.Audit"),
            (writer.clone(), false, StepStatus::Fail, excess, "VM.Allocate on /vms; VM.PowerMgmt on /"),
            (writer, true, StepStatus::Warn, None, "VM.Allocate on /vms; VM.PowerMgmt on /"),
            (narrow, false, StepStatus::Warn, None, "only some nodes"),
        ] {
            let held = serde_json::from_value(map.clone()).expect("a map");
            let verdict = Verdict::of(&held, allow);
            assert_eq!((verdict.step.status, verdict.code), (status, code), "{map}");
            assert!(verdict.step.message.contains(says), "{map}: {}", verdict.step.message);
        }
    }
}
