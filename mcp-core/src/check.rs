//! The check of an adapter's configuration: a list of steps, each saying what was found and what to do about it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::adapter::Adapter;
use crate::error::ErrorCode;
use crate::secret::SecretValue;

/// The steps, in the order in which they are taken. A step that fails ends the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepName {
    /// The egress policy lets the host be dialled.
    Egress,
    /// Its name has addresses, all of them allowed.
    Dns,
    /// Its certificate is trusted.
    Tls,
    /// It takes the credential.
    Auth,
    /// The credential may read what the tools read, and nothing more than that where this can be told.
    Permissions,
    /// What it is and which version; recorded, never branched on.
    Version,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// As it should be.
    Ok,
    /// Usable, but something will be missing.
    Warn,
    /// Not usable.
    Fail,
}

/// One step of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStep {
    /// Which.
    pub step: StepName,
    /// How it went.
    pub status: StepStatus,
    /// What was found, in one sentence. Never the upstream's own body.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What a check found. The check passes when no step failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckReport {
    /// The steps that were taken.
    pub steps: Vec<CheckStep>,
    /// The code of the refusal, when a step failed (`tls_untrusted`, `pve_role_missing`, …).
    pub code: Option<ErrorCode>,
    /// SHA-256 of the certificate of a host that is not trusted yet, lower-case hexadecimal, for an admin to confirm.
    pub fingerprint: Option<String>,
    /// What is worth remembering with the configuration: product, version, expiry of the token.
    pub facts: Map<String, Value>,
}

impl CheckStep {
    /// A step that went well.
    #[must_use]
    pub fn ok(step: StepName, message: impl Into<String>) -> Self {
        Self { step, status: StepStatus::Ok, message: message.into(), fix: None }
    }

    /// A step with something to know about.
    #[must_use]
    pub fn warn(step: StepName, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { step, status: StepStatus::Warn, message: message.into(), fix: Some(fix.into()) }
    }

    /// A step that failed.
    #[must_use]
    pub fn fail(step: StepName, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { step, status: StepStatus::Fail, message: message.into(), fix: Some(fix.into()) }
    }
}

impl CheckReport {
    /// The worst status of all steps; `Fail` when no step was taken.
    #[must_use]
    pub fn status(&self) -> StepStatus {
        self.steps.iter().map(|step| step.status).max().unwrap_or(StepStatus::Fail)
    }

    /// Whether the configuration may be stored.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.status() != StepStatus::Fail
    }
}

/// An adapter over an upstream that an admin configures.
#[async_trait]
pub trait UpstreamAdapter: Adapter {
    /// Checks the configuration against the real upstream, step by step, within ten seconds.
    ///
    /// It never fails: what goes wrong is a step. Dropping the future leaves nothing behind.
    async fn check(&self, credential: &SecretValue) -> CheckReport;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_step_fails_the_check_and_none_at_all_does_too() {
        let ok = CheckStep::ok(StepName::Egress, "allowed");
        let warn = CheckStep::warn(StepName::Permissions, "partial", "grant more");
        let fail = CheckStep::fail(StepName::Auth, "refused", "renew the token");
        let report = |steps: &[&CheckStep]| CheckReport {
            steps: steps.iter().map(|step| (*step).clone()).collect(),
            ..CheckReport::default()
        };
        assert!(!report(&[]).passed());
        assert!(report(&[&ok]).passed());
        assert_eq!(report(&[&ok, &warn]).status(), StepStatus::Warn);
        assert!(report(&[&ok, &warn]).passed());
        assert!(!report(&[&ok, &fail]).passed());
    }
}
