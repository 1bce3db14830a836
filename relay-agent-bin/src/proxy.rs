//! An HTTP proxy on the way out (`HTTPS_PROXY`). It sees the name of the control plane and encrypted bytes.

use std::fmt;
use std::io::{self, ErrorKind};
use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// Largest answer of a proxy before the tunnel begins, bytes.
const LARGEST_ANSWER: usize = 8 * 1024;

/// An HTTP proxy: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
}

/// The text names no proxy that the agent can use. It is not quoted: people put passwords there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a proxy is given as http://host:port, without user name and password")]
pub struct ProxyError;

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text).map_err(|_| ProxyError)?;
        let plain = url.scheme() == "http"
            && url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) if plain => {
                Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port })
            }
            _ => Err(ProxyError),
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// Asks the proxy for a tunnel to this host.
    pub(crate) async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let authority =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;

        // Byte by byte, because what follows the empty line belongs to TLS already.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == LARGEST_ANSWER {
                return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        match answer.split(|byte| *byte == b' ').nth(1) {
            Some([b'2', _, _]) => Ok(stream),
            Some(b"407") => Err(io::Error::new(ErrorKind::PermissionDenied, "it wants a password")),
            _ => Err(io::Error::new(ErrorKind::ConnectionRefused, "it refused")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncBufReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_proxy_is_a_plain_address() {
        assert_eq!("http://proxy:3128".parse::<Proxy>().unwrap().to_string(), "proxy:3128");
        assert_eq!("http://proxy/".parse::<Proxy>().unwrap().port, 80);
        assert_eq!("http://[::1]:1".parse::<Proxy>().unwrap().host, "::1");
        for text in ["", "proxy:3128", "https://proxy", "socks5://p", "http://u:p@proxy", "http://proxy/x"] {
            assert_eq!(text.parse::<Proxy>(), Err(ProxyError), "{text}");
        }
    }

    /// A proxy that answers once with this, then sends `hello`.
    async fn proxy(answer: &'static str) -> (Proxy, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let served = tokio::spawn(async move {
            let mut stream = tokio::io::BufStream::new(listener.accept().await.unwrap().0);
            let mut request = String::new();
            while !request.ends_with("\r\n\r\n") {
                stream.read_line(&mut request).await.unwrap();
            }
            stream.write_all(format!("{answer}\r\n\r\nhello").as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            request
        });
        (proxy, served)
    }

    #[tokio::test]
    async fn a_tunnel_begins_right_after_the_answer() {
        let (proxy, served) = proxy("HTTP/1.1 200 Connection established\r\nVia: x").await;
        let mut stream = proxy.tunnel("cp.example", 443).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "hello");
        assert!(
            served.await.unwrap().starts_with("CONNECT cp.example:443 HTTP/1.1\r\nHost: cp.example:443\r\n")
        );
    }

    #[tokio::test]
    async fn a_proxy_may_refuse() {
        for (answer, kind) in [
            ("HTTP/1.1 407 Proxy Authentication Required", ErrorKind::PermissionDenied),
            ("HTTP/1.1 403 Forbidden", ErrorKind::ConnectionRefused),
            ("SSH-2.0", ErrorKind::ConnectionRefused),
        ] {
            let (proxy, _served) = proxy(answer).await;
            assert_eq!(proxy.tunnel("::1", 443).await.unwrap_err().kind(), kind);
        }
    }
}
