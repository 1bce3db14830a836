//! The operator's proxy: who it is, and how it is asked for a tunnel.

use std::fmt;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::{Host, Url};

use crate::error::EgressError;
use crate::resolver::{ResolveError, Resolver};
use crate::target::{has_doubtful_characters, has_unusual_slashes};

/// What is read of the answer to `CONNECT`.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// An HTTP proxy that tunnels (`CONNECT`), as an operator names it: `http://host:port`.
///
/// It learns which hosts are asked for. What is said to them is inside TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    host: Host,
    port: u16,
}

/// The text names no proxy. It is not repeated, since it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a proxy is named http://host:port, without user, password and path")]
pub struct NotAProxy;

impl ProxyUrl {
    /// Reads `http://host:port`.
    ///
    /// # Errors
    /// [`NotAProxy`] for another scheme, a missing port, credentials, a path, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, NotAProxy> {
        let url = Url::parse(text).map_err(|_| NotAProxy)?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        // The parser drops a port of 80, and the empty user name of `http://@host`.
        let names_port = text
            .trim_end_matches('/')
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port != 0));
        let is_plain = !text.contains('@') && !has_doubtful_characters(text) && !has_unusual_slashes(text);
        if url.scheme() != "http" || !is_bare || !names_port || !is_plain {
            return Err(NotAProxy);
        }
        let host = url.host().ok_or(NotAProxy)?.to_owned();
        Ok(Self { host, port: url.port_or_known_default().ok_or(NotAProxy)? })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where it is. Not vetted: the operator may have it on a private address.
    pub(crate) async fn addresses(&self, resolver: &dyn Resolver) -> Result<Vec<IpAddr>, ResolveError> {
        match &self.host {
            Host::Domain(name) => resolver.resolve(name).await,
            Host::Ipv4(address) => Ok(vec![(*address).into()]),
            Host::Ipv6(address) => Ok(vec![(*address).into()]),
        }
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyUrl({self})")
    }
}

/// Asks for a tunnel. Afterwards the stream is the host's. The caller bounds the time.
pub(crate) async fn open_tunnel(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host_and_port: &str,
) -> Result<(), EgressError> {
    const GONE: EgressError = EgressError::Broken("the egress proxy closed the connection");
    let request = format!("CONNECT {host_and_port} HTTP/1.1\r\nHost: {host_and_port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|_| GONE)?;

    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let read = match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return Err(GONE),
            Ok(read) => read,
        };
        head.extend_from_slice(&chunk[..read]);
        if let Some(verdict) = judge(&head) {
            return verdict;
        }
    }
}

/// What the answer says, as soon as that can be told.
fn judge(head: &[u8]) -> Option<Result<(), EgressError>> {
    const STRANGE: EgressError = EgressError::Broken("the egress proxy does not answer as a proxy does");
    // A server that speaks something else need not be heard out.
    if !head.iter().zip(b"HTTP/1.").all(|(got, want)| got == want) {
        return Some(Err(STRANGE));
    }
    let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4) else {
        return (head.len() > MAX_HEAD_BYTES).then_some(Err(STRANGE));
    };
    if end > MAX_HEAD_BYTES {
        return Some(Err(STRANGE));
    }
    Some(match status(&head[..end]) {
        // The host waits for our hello: bytes that come before it are not the host's.
        Some(200) if end < head.len() => Err(STRANGE),
        Some(200) => Ok(()),
        Some(_) => Err(EgressError::Broken("the egress proxy refused the tunnel")),
        None => Err(STRANGE),
    })
}

/// The status of a whole head.
fn status(head: &[u8]) -> Option<u16> {
    let (version, rest) = head.split_at_checked(9)?;
    let (status, rest) = rest.split_at_checked(3)?;
    let is_known = matches!(version, b"HTTP/1.1 " | b"HTTP/1.0 ") && matches!(rest[..], [b' ' | b'\r', ..]);
    let digits = std::str::from_utf8(status).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()))?;
    digits.parse().ok().filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port() {
        for (text, shown) in [
            ("http://proxy.corp.example:3128", "http://proxy.corp.example:3128"),
            ("http://proxy:80/", "http://proxy:80"),
            ("http://10.0.0.5:3128", "http://10.0.0.5:3128"),
            ("http://[fd00::5]:3128", "http://[fd00::5]:3128"),
        ] {
            assert_eq!(ProxyUrl::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "",
            "proxy:3128",
            "proxy",
            "http://proxy",
            "http://[::1]",
            "http://proxy:0",
            "http://proxy:65536",
            "https://proxy:3128",
            "socks5://proxy:1080",
            "http://user:s3cret@proxy:3128",
            "http://@proxy:3128",
            "http://proxy:3128/path",
            "http://proxy/path:3128",
            "http://proxy:3128?query",
            "http://proxy:3128#fragment",
            "http:proxy:3128",
            "http:////proxy:3128",
            " http://proxy:3128",
            "http:\\\\proxy:3128",
        ] {
            let error = ProxyUrl::parse(text).expect_err(text).to_string();
            assert!(!error.contains("s3cret"));
        }
    }

    #[test]
    fn only_200_and_nothing_after_it_opens_a_tunnel() {
        let words = |head: &str| match judge(head.as_bytes()) {
            None => "more".to_owned(),
            Some(Ok(())) => "open".to_owned(),
            Some(Err(EgressError::Broken(words))) => words.rsplit(' ').next().unwrap_or_default().to_owned(),
            Some(Err(other)) => panic!("{other:?}"),
        };
        for (head, verdict) in [
            ("", "more"),
            ("HTT", "more"),
            ("HTTP/1.1 200 Connection established\r\nVia: a\r\n", "more"),
            ("HTTP/1.1 200 Connection established\r\nVia: a\r\n\r\n", "open"),
            ("HTTP/1.0 200\r\n\r\n", "open"),
            ("HTTP/1.1 200 OK\r\n\r\nSSH-2.0", "does"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "does"),
            ("HTTP/1.1 204 No Content\r\n\r\n", "tunnel"),
            ("HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", "tunnel"),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", "tunnel"),
            ("HTTP/1.1 403 Forbidden\r\n\r\nwhy not", "tunnel"),
            ("HTTP/1.1 +20 OK\r\n\r\n", "does"),
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "tunnel"),
            ("HTTP/1.1 abc\r\n\r\n", "does"),
            ("HTTP/1.1\r\n\r\n", "does"),
            ("HTTP/1.2 200 OK\r\n\r\n", "does"),
            ("SSH-2.0-OpenSSH\r\n", "does"),
        ] {
            assert_eq!(words(head), verdict, "{head:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(MAX_HEAD_BYTES));
        assert_eq!(words(&long), "does");
        assert_eq!(words(&format!("{long}\r\n\r\n")), "does");
    }
}
