//! The address of the control plane: `https`, or `http` to this very machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use url::{Host, Url};

/// The control plane's public URL, as the operator gave it.
///
/// `http` is accepted for loopback addresses and the name `localhost` only. That name is never looked up: it means
/// `127.0.0.1` and `::1`, whatever a resolver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

/// The text is no address that the agent would connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No URL at all.
    #[error("not a URL")]
    Malformed,
    /// Anything else than `https` and `http`.
    #[error("the URL must begin with https://")]
    Scheme,
    /// `http` to another machine: commands and their output would cross the network in the clear.
    #[error("http:// is for loopback addresses only; use https://")]
    Plaintext,
    /// A user name, password, query or fragment.
    #[error("the URL must be an address only, without user name, query or fragment")]
    Extras,
}

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// These addresses, in turn.
    Addresses(Vec<SocketAddr>),
    /// A name to look up, and a port.
    Name(String, u16),
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url = Url::parse(text).map_err(|_| UrlError::Malformed)?;
        let host = url.host().ok_or(UrlError::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&host) => {}
            "http" => return Err(UrlError::Plaintext),
            _ => return Err(UrlError::Scheme),
        }
        let extras = !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some();
        if extras { Err(UrlError::Extras) } else { Ok(Self(url)) }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl ServerUrl {
    /// Host and port in lower case, the port left out when it is the scheme's own. This is what the agent signs.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        match self.0.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether the connection must be encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Path and nothing else of an endpoint below this URL.
    pub(crate) fn path_of(&self, endpoint: &str) -> String {
        format!("{}{endpoint}", self.0.path().trim_end_matches('/'))
    }

    /// The URL of an endpoint in the scheme of WebSockets.
    pub(crate) fn websocket(&self, endpoint: &str) -> String {
        let scheme = if self.is_encrypted() { "wss" } else { "ws" };
        format!("{scheme}://{}{}", self.authority(), self.path_of(endpoint))
    }

    /// The host without brackets, as certificates name it.
    pub(crate) fn host(&self) -> String {
        match self.0.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(443)
    }

    pub(crate) fn destination(&self) -> Destination {
        let port = self.port();
        let at = |address: IpAddr| SocketAddr::new(address, port);
        match self.0.host() {
            Some(Host::Ipv4(address)) => Destination::Addresses(vec![at(address.into())]),
            Some(Host::Ipv6(address)) => Destination::Addresses(vec![at(address.into())]),
            Some(Host::Domain("localhost")) => {
                Destination::Addresses(vec![at(Ipv4Addr::LOCALHOST.into()), at(Ipv6Addr::LOCALHOST.into())])
            }
            Some(Host::Domain(name)) => Destination::Name(name.to_owned(), port),
            None => Destination::Addresses(Vec::new()),
        }
    }

    /// Whether the connection stays on this machine, so that no proxy may see it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.host().is_some_and(|host| is_loopback(&host))
    }
}

/// Decided on the parsed host, so that `localhost.evil.example` and `127.0.0.1.evil.example` are what they are: names.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => *name == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> ServerUrl {
        text.parse().unwrap()
    }

    #[test]
    fn plaintext_stays_on_this_machine() {
        for fine in [
            "https://cp.example",
            "https://cp.example:8443/coreci/",
            "http://127.0.0.1:8080",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://localhost:9",
            "http://LOCALHOST",
            "http://0x7f.1",
        ] {
            assert!(fine.parse::<ServerUrl>().is_ok(), "{fine}");
        }
        for (text, error) in [
            ("http://cp.example", UrlError::Plaintext),
            ("http://localhost.evil.example", UrlError::Plaintext),
            ("http://127.0.0.1.evil.example", UrlError::Plaintext),
            ("http://127.0.0.1@evil.example", UrlError::Plaintext),
            ("http://localhost.", UrlError::Plaintext),
            ("http://0.0.0.0", UrlError::Plaintext),
            ("http://[::ffff:127.0.0.1]", UrlError::Plaintext),
            ("http://10.0.0.1", UrlError::Plaintext),
            ("ws://127.0.0.1", UrlError::Scheme),
            ("ftp://cp.example", UrlError::Scheme),
            ("https://user@cp.example", UrlError::Extras),
            ("https://:pw@cp.example", UrlError::Extras),
            ("https://cp.example?a=b", UrlError::Extras),
            ("https://cp.example#a", UrlError::Extras),
            ("cp.example", UrlError::Malformed),
            ("https://", UrlError::Malformed),
            ("", UrlError::Malformed),
        ] {
            assert_eq!(text.parse::<ServerUrl>(), Err(error), "{text}");
        }
    }

    #[test]
    fn the_signed_name_leaves_the_default_port_out() {
        for (text, authority) in [
            ("https://CP.Example", "cp.example"),
            ("https://cp.example:443/", "cp.example"),
            ("https://cp.example:8443", "cp.example:8443"),
            ("http://127.0.0.1:80", "127.0.0.1"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://localhost:443", "localhost:443"),
        ] {
            assert_eq!(url(text).authority(), authority);
        }
    }

    #[test]
    fn endpoints_lie_below_the_url() {
        assert_eq!(url("https://cp.example/").websocket("/api/relay/ws"), "wss://cp.example/api/relay/ws");
        assert_eq!(url("https://cp.example/x/").websocket("/api"), "wss://cp.example/x/api");
        assert_eq!(url("http://[::1]:8/").websocket("/api"), "ws://[::1]:8/api");
        assert_eq!(url("https://cp.example/x/").to_string(), "https://cp.example/x");
    }

    #[test]
    fn localhost_is_never_looked_up() {
        let loopback = ["127.0.0.1:9", "[::1]:9"].map(|address| address.parse().unwrap()).to_vec();
        assert_eq!(url("http://localhost:9").destination(), Destination::Addresses(loopback));
        assert_eq!(url("https://cp.example").destination(), Destination::Name("cp.example".to_owned(), 443));
        assert_eq!(url("https://[2001:db8::1]").host(), "2001:db8::1");
    }
}
