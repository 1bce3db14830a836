//! What an operator decides about egress.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::proxy::ProxyUrl;

/// Who owns the network that this process stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// We run it for many customers: nothing private is a customer's, so `allow_cidrs` has no effect and local names
    /// are refused.
    Saas,
    /// The operator runs it beside its own hosts: private ranges can be allowed.
    #[default]
    SelfHosted,
}

/// What may be dialled. The default is self-hosted with no private address allowed.
///
/// Some addresses are refused whatever it says: those of metadata services, link-local ones, and our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Whose network this is.
    pub mode: Mode,
    /// Private ranges (RFC 1918, RFC 6598, unique local) that may be dialled in [`Mode::SelfHosted`]. A range that
    /// covers other special addresses does not open them.
    pub allow_cidrs: Vec<IpNet>,
    /// Hosts that are refused: a name, an IP address, or `*.name` for all names below one. Compared without case.
    pub deny_hosts: Vec<String>,
    /// Ports that may be dialled. Empty allows none.
    pub ports: Vec<u16>,
    /// Whether plain `http` may be used, and then only to loopback or to an allowed private address.
    pub allow_http: bool,
    /// Whether loopback may be dialled. For `dev` and tests.
    pub allow_loopback: bool,
    /// Where we listen and where our database does: never dialled. An unspecified address stands for every address
    /// of this machine.
    pub own_addresses: Vec<SocketAddr>,
    /// The proxy through which everything goes out. Never taken from the environment. What a name resolves to is then
    /// the proxy's to find out and to vet; names and IP literals are still vetted here, and plain `http` is refused.
    pub proxy: Option<ProxyUrl>,
}

impl Default for EgressPolicy {
    fn default() -> Self {
        Self {
            mode: Mode::SelfHosted,
            allow_cidrs: Vec::new(),
            deny_hosts: Vec::new(),
            ports: vec![443, 8006, 3000, 8443],
            allow_http: false,
            allow_loopback: false,
            own_addresses: Vec::new(),
            proxy: None,
        }
    }
}
