//! The one table of who may do what (SPEC §3).

use std::fmt;
use std::str::FromStr;

use mcp_core::principal::{Action, Grants};
use serde::{Deserialize, Serialize};

/// What a person, service or key is within its tenant. Ordered: a later role can do all that an earlier one can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads, and invokes nothing.
    Viewer,
    /// Reads and invokes tools.
    Operator,
    /// Everything in the tenant.
    Admin,
}

/// Not the name of a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a role: use admin, operator or viewer")]
pub struct UnknownRole;

impl Role {
    /// Every role, the mightiest first.
    pub const ALL: &'static [Self] = &[Self::Admin, Self::Operator, Self::Viewer];

    /// The name in the database, in JSON and in audit rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
        }
    }

    /// Whether the role carries the action. Both sides are matched in full, so a new action has no role until somebody
    /// gives it one here.
    #[must_use]
    pub const fn allows(self, action: Action) -> bool {
        match action {
            Action::MeRead
            | Action::ToolsList
            | Action::McpConnect
            | Action::CallsRead
            | Action::ToolPolicyRead
            | Action::TargetsRead
            | Action::AdaptersRead => true,
            Action::ToolsInvoke => match self {
                Self::Admin | Self::Operator => true,
                Self::Viewer => false,
            },
            Action::ToolPolicyWrite
            | Action::TargetsEnroll
            | Action::TargetsRevoke
            | Action::AdaptersWrite
            | Action::AdaptersTest
            | Action::KeysRead
            | Action::KeysCreate
            | Action::KeysRevoke
            | Action::AuditRead
            | Action::AuditVerify
            | Action::AuditExport => match self {
                Self::Admin => true,
                Self::Operator | Self::Viewer => false,
            },
        }
    }

    /// The grants of this role, on every tool and target.
    #[must_use]
    pub fn grants(self) -> Grants {
        Grants::new(Action::ALL.iter().copied().filter(|action| self.allows(*action)))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.iter().copied().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: REQ-004, C-D01, AU-05
    #[test]
    fn the_role_table_is_as_committed() {
        let mut table = format!("{:<20}", "action");
        for role in Role::ALL {
            table += &format!("{:<10}", role.as_str());
        }
        for action in Action::ALL {
            table += &format!("\n{:<20}", action.as_str());
            for role in Role::ALL {
                table += &format!("{:<10}", if role.allows(*action) { "yes" } else { "-" });
            }
        }
        let table: Vec<_> = table.lines().map(str::trim_end).collect();
        insta::assert_snapshot!("roles", table.join("\n"));
    }

    #[test]
    fn a_higher_role_can_do_all_that_a_lower_one_can() {
        for action in Action::ALL {
            assert!(Role::Admin.allows(*action));
            assert!(Role::Operator.allows(*action) || !Role::Viewer.allows(*action));
        }
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::Viewer);
    }
}
