//! Finds out why an agent does not work, one check after the other.

mod reach;

use std::error::Error;
use std::path::Path;

use self::reach::reach;
use crate::executor::find_programs;
use crate::identity::{Identity, check_directory};
use crate::local_policy::LocalPolicy;
use crate::proxy::Proxy;
use crate::run::POLICY_FILE;

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// What is the case, or what is wrong and what to do; `Err` is a fault.
    pub result: Result<String, String>,
}

/// Looks at everything that an agent in this directory needs. Changes nothing, runs no command.
///
/// On the way to the control plane it tells name lookup, proxy, connection, TLS, the control plane itself and the agent's
/// authentication apart, and stops at the first that fails. A link that is live stays so: the key is proven on a connection
/// of its own, which is never registered.
///
/// Takes up to 40 s when the control plane does not answer. Dropping the future ends it.
pub async fn examine(state_dir: &Path, proxy: Option<Proxy>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |check: &str, result| findings.push(Finding { check: check.to_owned(), result });

    let directory = check_directory(state_dir).map(|()| state_dir.display().to_string());
    add("state directory", directory.map_err(|error| chain(&error)));
    let policy = LocalPolicy::load(&state_dir.join(POLICY_FILE));
    add(POLICY_FILE, policy.map(|policy| policy.to_string()).map_err(|error| chain(&error)));
    for (name, path) in find_programs() {
        let found = path.map(|path| path.display().to_string());
        add(name, found.ok_or_else(|| "not installed; commands that need it will fail".to_owned()));
    }
    match Identity::load(state_dir) {
        Ok(identity) => {
            add("identity", Ok(format!("agent {}", identity.agent)));
            findings.extend(reach(&identity, proxy).await);
        }
        Err(error) => add("identity", Err(chain(&error))),
    }
    findings
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
