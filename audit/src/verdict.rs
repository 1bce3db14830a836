//! What a verification comes to, in words and in exit codes.

use std::fmt;

use mcp_core::id::CorrelationId;

/// What `audit verify` exits with when it could not check at all.
pub const EXIT_COULD_NOT_CHECK: u8 = 3;

/// The result of verifying one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every row is where and what it was when it was written, as far as the chain alone can tell.
    Intact {
        /// How many rows.
        rows: u64,
        /// The hash of the last one.
        head_hash: [u8; 32],
        /// Calls without an outcome: running now, or left behind by a process that died.
        open: Vec<OpenCall>,
    },
    /// Something was changed.
    Tampered(Tampering),
    /// The last rows are missing.
    Truncated {
        /// The sequence number of the last row that was once there.
        expected: u64,
        /// The sequence number of the last row that is there; 0 for none.
        found: u64,
    },
}

/// A call whose intent has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub correlation: CorrelationId,
    /// The row of its intent.
    pub seq: u64,
}

/// The first bad row and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {seq}: {why}")]
pub struct Tampering {
    /// Its sequence number; that of the missing row where there is a gap.
    pub seq: u64,
    /// What is wrong.
    pub why: Why,
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is missing.
    Gap,
    /// Its number was there before.
    Repeated,
    /// It does not follow the row before it.
    Link,
    /// Its content is not what was hashed.
    Hash,
    /// It is earlier than the row before it.
    Time,
    /// Its body is not a JSON object, or not that of a call although it says so.
    Body,
    /// It belongs to another tenant.
    ForeignRow,
    /// It opens a call that is open already.
    SecondIntent,
    /// It closes a call that is not open: it never was, or an earlier row has closed it.
    OutcomeWithoutIntent,
    /// It stands behind the recorded end of the chain.
    BeyondHead,
    /// It is the last one, but its hash is not the recorded one.
    OtherHead,
    /// A part of it cannot be read (in an export).
    Unreadable,
}

impl Verdict {
    /// What `audit verify` exits with: 0 intact, 1 tampered, 2 truncated.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Intact { .. } => 0,
            Self::Tampered(_) => 1,
            Self::Truncated { .. } => 2,
        }
    }

    /// Whether nothing is wrong. Open calls are not wrong.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        matches!(self, Self::Intact { .. })
    }

    /// The exit code over several chains: tampering outweighs truncation, which outweighs intactness.
    #[must_use]
    pub fn exit_code_of_all<'a>(verdicts: impl IntoIterator<Item = &'a Self>) -> u8 {
        let severity = |code: &u8| [0, 2, 1].into_iter().position(|one| one == *code);
        verdicts.into_iter().map(Self::exit_code).max_by_key(severity).unwrap_or(0)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intact { rows, open, .. } => {
                write!(f, "intact to {rows}, unanchored")?;
                match open.len() {
                    0 => Ok(()),
                    calls => write!(f, "; {calls} without an outcome"),
                }
            }
            Self::Tampered(tampering) => write!(f, "tampered: {tampering}"),
            Self::Truncated { expected, found } => {
                write!(f, "truncated: {expected} rows were written, {found} are left")
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "it is missing",
            Self::Repeated => "its number was there before",
            Self::Link => "it does not follow the row before it",
            Self::Hash => "its content is not what was hashed",
            Self::Time => "it is earlier than the row before it",
            Self::Body => "its body is not that of an event",
            Self::ForeignRow => "it belongs to another tenant",
            Self::SecondIntent => "it opens a call that is open already",
            Self::OutcomeWithoutIntent => "it closes a call that is not open",
            Self::BeyondHead => "it stands behind the recorded end of the chain",
            Self::OtherHead => "it is not the recorded end of the chain",
            Self::Unreadable => "it cannot be read",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_verdict_decides_the_exit_code() {
        let intact = Verdict::Intact { rows: 1, head_hash: [0; 32], open: Vec::new() };
        let tampered = Verdict::Tampered(Tampering { seq: 2, why: Why::Link });
        let truncated = Verdict::Truncated { expected: 3, found: 1 };

        assert_eq!(Verdict::exit_code_of_all([]), 0);
        assert_eq!(Verdict::exit_code_of_all([&intact]), 0);
        assert_eq!(Verdict::exit_code_of_all([&intact, &truncated]), 2);
        assert_eq!(Verdict::exit_code_of_all([&truncated, &tampered, &intact]), 1);
    }
}
