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
