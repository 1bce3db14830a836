//! Who is on the other end, and which of our names they used.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use ipnet::IpNet;
use mcp_core::error::ErrorCode;

use crate::error::ApiError;

/// The address of the socket that a request came through. Set by the server loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddr(pub(crate) SocketAddr);

/// The host names that a request may carry. A page that a browser was tricked into sending here under another name
/// (DNS rebinding) is turned away before anything else looks at it (CASES C-P07, C-A18).
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    names: Vec<String>,
}

impl AllowedHosts {
    /// These hosts, without ports; case does not matter.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    fn allow(&self, authority: &str) -> bool {
        let host = host_of(authority).to_ascii_lowercase();
        self.names.contains(&host)
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_of(authority: &str) -> &str {
    if authority.starts_with('[') {
        return authority.split_inclusive(']').next().unwrap_or(authority);
    }
    authority.split(':').next().unwrap_or(authority)
}

/// What orchestrators probe, by whatever address they know. These answers depend on nobody and tell nothing.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// Refuses a request that names a host which is not ours, in its Host header or its request line.
pub(crate) async fn check_host(State(hosts): State<AllowedHosts>, request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter().collect::<Vec<_>>();
    let in_header = match named[..] {
        [only] => only.to_str().is_ok_and(|host| hosts.allow(host)),
        _ => false,
    };
    let in_line = request.uri().authority().is_none_or(|authority| hosts.allow(authority.as_str()));
    if (in_header && in_line) || PROBES.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let message = "this server does not answer to that host name; use its public URL";
    ApiError::new(ErrorCode::HostRefused, message).into_response()
}

/// The web pages that may talk to this server from a browser. A page of any other origin is turned away before anything
/// else looks at its request, whatever credential it has got hold of; a program that is no browser names no origin.
#[derive(Debug, Clone, Default)]
pub struct AllowedOrigins {
    origins: Vec<AllowedOrigin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedOrigin {
    /// Scheme, `://` and host, in lower case.
    page: String,
    /// Any when absent.
    port: Option<u16>,
}

/// Not an origin that can be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin: write https://host, https://host:port, or http://localhost:* for any port")]
pub struct BadOrigin(pub String);

impl AllowedOrigins {
    /// These origins: scheme and host, with the port if it is not the scheme's own, or `:*` for any.
    ///
    /// # Errors
    /// [`BadOrigin`].
    pub fn parse<'a>(origins: impl IntoIterator<Item = &'a str>) -> Result<Self, BadOrigin> {
        let parse = |text: &'a str| AllowedOrigin::parse(text).ok_or_else(|| BadOrigin(text.to_owned()));
        Ok(Self { origins: origins.into_iter().map(parse).collect::<Result<_, _>>()? })
    }

    fn allow(&self, origin: &str) -> bool {
        let Some((page, Port::Number(port))) = split_origin(origin) else { return false };
        let allows = |allowed: &AllowedOrigin| {
            allowed.page == page && allowed.port.is_none_or(|allowed| allowed == port)
        };
        self.origins.iter().any(allows)
    }
}

impl AllowedOrigin {
    fn parse(text: &str) -> Option<Self> {
        let (page, port) = split_origin(text)?;
        let port = match port {
            Port::Any => None,
            Port::Number(number) => Some(number),
        };
        Some(Self { page, port })
    }
}

enum Port {
    Any,
    Number(u16),
}

/// Scheme with host, and port, of an origin as RFC 6454 writes it.
fn split_origin(text: &str) -> Option<(String, Port)> {
    let (scheme, authority) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let own_port = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let host = host_of(authority);
    if host.is_empty() || host.contains(['/', '@', '?', '#', ' ', '*']) {
        return None;
    }
    let port = match authority.strip_prefix(host)? {
        "" => Port::Number(own_port),
        ":*" => Port::Any,
        port => Port::Number(port.strip_prefix(':')?.parse().ok()?),
    };
    Some((format!("{scheme}://{}", host.to_ascii_lowercase()), port))
}

/// Refuses a request that a web page of another origin makes.
pub(crate) async fn check_origin(
    State(origins): State<AllowedOrigins>,
    request: Request,
    next: Next,
) -> Response {
    let mut named = request.headers().get_all(header::ORIGIN).iter();
    let is_allowed = match (named.next(), named.next()) {
        (None, _) => true,
        (Some(only), None) => only.to_str().is_ok_and(|origin| origins.allow(origin)),
        (Some(_), Some(_)) => false,
    };
    if is_allowed {
        return next.run(request).await;
    }
    let message = "this server does not answer to pages of that origin; its operator can allow it";
    ApiError::new(ErrorCode::OriginRefused, message).into_response()
}

/// The client's address: that of the socket, or what a trusted proxy says. Entries that a client could have written
/// itself stand to the left of those that trusted proxies appended, so the list is read from the right.
pub(crate) fn client_ip(peer: Option<PeerAddr>, headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut client = peer?.0.ip();
    let is_trusted = |address: IpAddr| trusted.iter().any(|net| net.contains(&address));
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        if !is_trusted(client) {
            break;
        }
        match hop.parse() {
            Ok(address) => client = address,
            Err(_) => break,
        }
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-A18, C-P07
    #[test]
    fn only_our_own_names_are_allowed() {
        let hosts =
            AllowedHosts::new(["CoreCI.example".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()]);
        for good in ["coreci.example", "COREci.example:443", "127.0.0.1:7420", "[::1]:7420", "[::1]"] {
            assert!(hosts.allow(good), "{good}");
        }
        for bad in
            ["evil.example", "coreci.example.evil.example", "", "coreci.example@evil", "[::2]", "127.0.0.11"]
        {
            assert!(!hosts.allow(bad), "{bad}");
        }
    }

    // proves: C-P07
    #[test]
    fn only_pages_of_our_own_origins_are_allowed() {
        let origins = AllowedOrigins::parse(["https://C.example", "http://localhost:*", "http://[::1]:8080"]);
        let origins = origins.expect("origins");
        for good in [
            "https://c.example",
            "https://c.example:443",
            "http://localhost",
            "http://LOCALHOST:6274",
            "http://[::1]:8080",
        ] {
            assert!(origins.allow(good), "{good}");
        }
        for bad in [
            "http://c.example",
            "https://c.example:8443",
            "https://c.example.evil.example",
            "https://c.example@evil.example",
            "https://evil.example",
            "http://[::1]",
            "null",
            "",
            "localhost",
            "https://c.example/",
            "http://localhost:*",
            "http://localhost:99999",
            "chrome-extension://abc",
        ] {
            assert!(!origins.allow(bad), "{bad}");
        }
        for bad in ["c.example", "https://", "https://a b", "*", "https://*:x", "https://c.example/path"] {
            assert_eq!(AllowedOrigins::parse([bad]).err(), Some(BadOrigin(bad.to_owned())));
        }
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().expect("a network")];
        let ip = |peer: &str, forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().expect("a value"));
            let peer = PeerAddr(SocketAddr::new(peer.parse().expect("an address"), 1));
            client_ip(Some(peer), &headers, &trusted).expect("an address").to_string()
        };
        assert_eq!(ip("192.0.2.1", "198.51.100.7"), "192.0.2.1");
        assert_eq!(ip("10.0.0.1", "198.51.100.7"), "198.51.100.7");
        assert_eq!(ip("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.2"), "198.51.100.7");
        assert_eq!(ip("10.0.0.1", "nonsense"), "10.0.0.1");
    }
}
