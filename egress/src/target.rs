//! A URL that was read one way and whose host, as far as it can be told before a lookup, may be dialled.

use std::fmt;

use url::{Host, Url};

use crate::policy::{EgressPolicy, Mode};
use crate::refusal::{AddressClass, Refusal};
use crate::vetted::Vetted;

/// Longer ones are no one's base URL.
const MAX_URL_BYTES: usize = 2048;
/// RFC 1035.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Names under which clouds serve credentials.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"];

/// Top-level names that mean something else in every network.
const LOCAL_SUFFIXES: [&str; 7] =
    ["internal", "local", "localhost", "localdomain", "lan", "home.arpa", "intranet"];

/// A base URL that the policy lets be dialled. A name says nothing of its addresses: those are vetted at every dial.
#[derive(Clone, PartialEq, Eq)]
pub struct EgressUrl {
    url: Url,
    host: String,
    port: u16,
}

impl EgressUrl {
    /// Reads a URL that a customer typed.
    ///
    /// # Errors
    /// A [`Refusal`] for text that is not read one way, credentials, another scheme, a port that is not listed, a
    /// refused name and an IP literal, however it is written, of a refused address.
    pub fn parse(text: &str, policy: &EgressPolicy) -> Result<Self, Refusal> {
        if text.len() > MAX_URL_BYTES {
            return Err(Refusal::Malformed("is longer than 2048 bytes"));
        }
        if has_doubtful_characters(text) {
            return Err(Refusal::Malformed("has whitespace, control characters or a backslash"));
        }
        let url = Url::parse(text).map_err(|_| Refusal::Malformed("does not parse"))?;
        if has_unusual_slashes(text) {
            return Err(Refusal::Malformed("does not begin with https:// and a host"));
        }
        Self::vet(&url, text, policy)
    }

    /// Vets a parsed URL; `text` is what it was parsed from.
    pub(crate) fn vet(url: &Url, text: &str, policy: &EgressPolicy) -> Result<Self, Refusal> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(Refusal::Scheme);
        }
        // `https://@host` has an empty user name that the parser drops.
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(Refusal::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(Refusal::Malformed("has a fragment"));
        }
        let port = url.port_or_known_default().ok_or(Refusal::Scheme)?;
        if url.scheme() == "http" && !policy.allow_http {
            return Err(Refusal::Scheme);
        }
        let host = url.host().ok_or(Refusal::Malformed("has no host"))?;
        let name = match &host {
            Host::Domain(name) => well_formed(name)?.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        vet_name(&host, &name, policy)?;
        if let Some(address) = literal(&host) {
            Vetted::of(&name, [address], port, url.scheme() == "https", policy)?;
        }
        if !policy.ports.contains(&port) {
            return Err(Refusal::Port { port });
        }
        // The proxy and everyone behind it would read along.
        if url.scheme() == "http" && policy.proxy.is_some() {
            return Err(Refusal::PlainHttp { host: name });
        }
        Ok(Self { url: url.clone(), host: name, port })
    }

    /// The host: a name without its final dot, in its ASCII form, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also where the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the other URL has the same scheme, host and port.
    pub fn same_origin(&self, other: &Url) -> bool {
        self.url.origin() == other.origin()
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.url
    }

    /// Host and port for the `Host` header: no user, no final dot, no default port.
    pub(crate) fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.bracketed()),
            None => self.bracketed(),
        }
    }

    /// Host and port for a proxy: no final dot, always a port.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    fn bracketed(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(address)) => format!("[{address}]"),
            _ => self.host.clone(),
        }
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The address, if the host is one.
    pub(crate) fn literal(&self) -> Option<std::net::IpAddr> {
        self.url.host().as_ref().and_then(literal)
    }
}

/// Whether two readers could see two URLs in the text.
pub(crate) fn has_doubtful_characters(text: &str) -> bool {
    text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\')
}

/// The parser also takes `https:host` and `https:////host`, which others read as paths.
pub(crate) fn has_unusual_slashes(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["https:", "http:"].iter().any(|scheme| {
        text.strip_prefix(scheme).is_some_and(|rest| !rest.starts_with("//") || rest.starts_with("///"))
    })
}

/// What stands before the path. Of a relative link, and of `https:host`, it may be too much: never too little.
fn authority(text: &str) -> &str {
    let is_scheme = |scheme: &str| scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    let rest = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        Some(_) | None if text.starts_with("//") => text,
        Some(_) | None => return "",
    };
    rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default()
}

fn literal(host: &Host<&str>) -> Option<std::net::IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some((*address).into()),
        Host::Ipv6(address) => Some((*address).into()),
    }
}

/// The name without its final dot.
fn well_formed(name: &str) -> Result<&str, Refusal> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let labels_fit = name.split('.').all(|label| (1..=MAX_LABEL_BYTES).contains(&label.len()));
    if labels_fit && name.len() <= MAX_NAME_BYTES {
        Ok(name)
    } else {
        Err(Refusal::Malformed("has a host name that cannot exist"))
    }
}

fn vet_name(host: &Host<&str>, name: &str, policy: &EgressPolicy) -> Result<(), Refusal> {
    let refused = || Refusal::Name { host: name.to_owned() };
    if policy.denies_name(name) {
        return Err(refused());
    }
    if !matches!(host, Host::Domain(_)) {
        return Ok(());
    }
    if METADATA_NAMES.contains(&name) {
        return Err(refused());
    }
    match policy.mode {
        Mode::Saas if is_local(name) && !(policy.allow_loopback && is_localhost(name)) => Err(refused()),
        Mode::SelfHosted if is_localhost(name) && !policy.allow_loopback => {
            Err(Refusal::Address { host: name.to_owned(), class: AddressClass::Loopback, allowable: None })
        }
        Mode::Saas | Mode::SelfHosted => Ok(()),
    }
}

fn is_local(name: &str) -> bool {
    !name.contains('.') || LOCAL_SUFFIXES.iter().any(|suffix| is_at_or_below(name, suffix))
}

fn is_localhost(name: &str) -> bool {
    is_at_or_below(name, "localhost")
}

fn is_at_or_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Scheme, host, port and path. A query may hold a key.
impl fmt::Display for EgressUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.url.origin().ascii_serialization(), self.url.path())
    }
}

impl fmt::Debug for EgressUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EgressUrl({self})")
    }
}
