//! Why a host is not dialled.

use std::net::IpAddr;

/// What kind of address was met. It is for logs and hints: messages do not tell it, because the answer of a resolver
/// inside our network is no customer's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Globally reachable.
    Public,
    /// Private use, shared or unique local: an operator may allow it.
    Private,
    /// This machine.
    Loopback,
    /// A metadata service of a cloud, which hands out credentials.
    Metadata,
    /// Link-local.
    LinkLocal,
    /// Anything else that is not globally reachable unicast.
    Special,
    /// One of our own listeners, or our database.
    Own,
    /// In the operator's `deny_hosts`.
    Denied,
}

/// Why a URL, a redirect or an address is refused. Final: trying again does not help, and no later error hides it.
///
/// Messages name the host as the URL does, an address in its usual form, and nothing that was learnt about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is no URL that we read only one way.
    #[error("the URL {0}")]
    Malformed(&'static str),
    /// Credentials in a URL end up in logs, and `good@bad` misleads readers.
    #[error("the URL carries a user name or password")]
    UserInfo,
    /// Not `https`, nor `http` where that is allowed.
    #[error("only https URLs are dialled")]
    Scheme,
    /// Plain `http` to something else than loopback or an allowed private address.
    #[error("{host} is dialled over https only")]
    PlainHttp {
        /// As the URL names it.
        host: String,
    },
    /// Not in the list of ports.
    #[error("port {port} is not in the list of allowed ports")]
    Port {
        /// The port asked for.
        port: u16,
    },
    /// A name that only means something inside a network, or one in `deny_hosts`.
    #[error("{host} is a name that the egress policy refuses")]
    Name {
        /// As the URL names it.
        host: String,
    },
    /// The host is, or resolves to, an address that is not dialled.
    #[error("{host} is, or resolves to, an address that the egress policy refuses")]
    Address {
        /// As the URL names it.
        host: String,
        /// What was met.
        class: AddressClass,
        /// The address to allow, where an operator can.
        allowable: Option<IpAddr>,
    },
    /// A redirect or a link leads to another scheme, host or port.
    #[error("the upstream points to another origin")]
    OtherOrigin,
}

impl Refusal {
    /// What an operator may do about it. None where nothing would help, and in [`Mode::Saas`](crate::Mode::Saas),
    /// where the reader is not the operator.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Address { allowable: Some(address), .. } => {
                let prefix = if address.is_ipv4() { 32 } else { 128 };
                Some(format!("allow_cidrs = [\"{address}/{prefix}\"]"))
            }
            _ => None,
        }
    }
}
