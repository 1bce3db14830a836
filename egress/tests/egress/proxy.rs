//! The operator's proxy: what it is told, what it is not, and what becomes of its answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use egress::testing::{FakeServer, Reply, SlowResolver, StaticResolver, loopback_policy};
use egress::{
    AddressClass, EgressError, EgressPolicy, EgressUrl, Get, ProxyUrl, Refusal, ResolveError, Resolver,
    TlsProbe, TlsTrust, UpstreamClient,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::support::client;

/// What the proxy does once it was asked.
#[derive(Clone)]
enum Then {
    /// Tunnels to this server, whatever was asked for.
    Tunnel(SocketAddr),
    /// Says this and closes.
    Say(Vec<u8>),
    /// Says this and waits for more.
    Hang(&'static [u8]),
}

/// A proxy on loopback that keeps every byte that a client sent it.
struct FakeProxy {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    accepting: AbortHandle,
}

impl FakeProxy {
    async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let accepting = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serve(tcp, then.clone(), Arc::clone(&ear)));
            }
        });
        Self { address, heard, accepting: accepting.abort_handle() }
    }

    async fn to(server: &FakeServer) -> Self {
        Self::start(Then::Tunnel(server.address())).await
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.lock().expect("nobody panicked").clone()
    }

    /// The policy of an operator who named it by this host.
    fn policy(&self, host: &str) -> EgressPolicy {
        let url = format!("http://{host}:{}", self.address.port());
        EgressPolicy {
            ports: (1..=u16::MAX).collect(),
            proxy: Some(ProxyUrl::parse(&url).expect("a proxy")),
            ..EgressPolicy::default()
        }
    }
}

impl Drop for FakeProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut tcp: TcpStream, then: Then, heard: Arc<Mutex<Vec<u8>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if tcp.read_buf(&mut head).await.unwrap_or(0) == 0 {
            break;
        }
    }
    heard.lock().expect("nobody panicked").extend_from_slice(&head);
    match then {
        Then::Tunnel(server) => {
            tcp.write_all(b"HTTP/1.1 200 Connection established\r\nVia: fake\r\n\r\n")
                .await
                .expect("the client waits");
            let (mut from, mut to) = tcp.into_split();
            let (mut back, mut forth) =
                TcpStream::connect(server).await.expect("the server listens").into_split();
            tokio::spawn(async move { tokio::io::copy(&mut back, &mut to).await });
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut chunk).await {
                heard.lock().expect("nobody panicked").extend_from_slice(&chunk[..read]);
                if forth.write_all(&chunk[..read]).await.is_err() {
                    return;
                }
            }
        }
        Then::Say(words) => {
            let _ = tcp.write_all(&words).await;
        }
        Then::Hang(words) => {
            let _ = tcp.write_all(words).await;
            let _ = tcp.read(&mut [0]).await;
        }
    }
}

/// Every name is at 127.0.0.1; keeps which were asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

#[async_trait]
impl Resolver for Asked {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        self.0.lock().expect("nobody panicked").push(host.to_owned());
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

async fn upstream() -> FakeServer {
    let server = FakeServer::https_for(&["git.example"]).await;
    server.fallback(Reply::json(200, json!({})));
    server
}

fn of(server: &FakeServer, trust: TlsTrust, proxy: &FakeProxy) -> UpstreamClient {
    let policy = Arc::new(proxy.policy("127.0.0.1"));
    client(&server.url_as("git.example"), trust, policy, Arc::new(Asked::default()))
}

fn get() -> Get {
    Get::path(["path-s3cret"]).secret_header("authorization", "Bearer s3cret")
}

fn holds(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[tokio::test]
async fn the_proxy_gets_the_name_and_no_secret() {
    let server = upstream().await;
    let proxy = FakeProxy::to(&server).await;
    let resolver = Arc::new(Asked::default());
    let url = EgressUrl::parse(&server.url_as("Git.Example."), &proxy.policy("proxy.corp")).unwrap();
    let trust = TlsTrust::CaPem(server.ca_pem());
    let client =
        UpstreamClient::new(url, trust, Arc::new(proxy.policy("proxy.corp")), resolver.clone()).unwrap();

    for _ in 0..2 {
        assert_eq!(client.get(get()).await.unwrap().status, 200);
    }

    assert_eq!(*resolver.0.lock().unwrap(), ["proxy.corp"], "the host's name is not looked up; one tunnel");
    let seen = server.requests();
    assert!(seen.iter().all(|seen| seen.headers["authorization"] == "Bearer s3cret"));
    let heard = proxy.heard();
    let target = format!("git.example:{}", server.address().port());
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert!(heard.starts_with(head.as_bytes()), "{:?}", String::from_utf8_lossy(&heard));
    assert!(heard.len() > head.len() && !holds(&heard, "s3cret") && !holds(&heard, "authorization"));
    assert_eq!(client.probe_tls().await, TlsProbe::Ok);
    assert_eq!(server.requests().len(), 2);
}

/// The test above, once more in a process whose environment names another proxy, and one to go without.
// proves: C-H18
#[test]
fn the_environments_proxy_is_not_used_instead() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &url);
    }
    child.env("NO_PROXY", "*").env("no_proxy", "*");
    let ran = child.args(["--exact", "proxy::the_proxy_gets_the_name_and_no_secret"]).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
    assert!(ran.status.success());
    assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn what_is_refused_without_a_lookup_does_not_reach_the_proxy() {
    let server = upstream().await;
    let proxy = FakeProxy::to(&server).await;
    let port = server.address().port();
    let policy = EgressPolicy {
        deny_hosts: vec!["*.corp.example".into()],
        allow_http: true,
        ..proxy.policy("127.0.0.1")
    };
    for host in
        ["10.0.0.1", "127.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]", "a.corp.example", "localhost"]
    {
        let url = format!("https://{host}:{port}");
        assert!(EgressUrl::parse(&url, &policy).is_err(), "{host}");
        if host == "169.254.169.254" {
            continue; // No policy lets it be saved.
        }
        // Saved when the policy was laxer.
        let lax =
            EgressPolicy { allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()], ..(*loopback_policy()).clone() };
        let saved = EgressUrl::parse(&url, &lax).unwrap();
        let client = UpstreamClient::new(
            saved,
            TlsTrust::System,
            Arc::new(policy.clone()),
            Arc::new(StaticResolver::loopback()),
        );
        let error = client.unwrap().get(get()).await.unwrap_err();
        assert!(matches!(error, EgressError::Refused(_)), "{host}: {error:?}");
    }
    let private = EgressUrl::parse("https://10.0.0.1", &policy).unwrap_err();
    assert!(matches!(private, Refusal::Address { class: AddressClass::Private, .. }));

    // A literal that may be dialled is asked for as it is.
    let policy = Arc::new(EgressPolicy { allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()], ..policy });
    assert!(proxy.heard().is_empty());
    let url = format!("https://10.0.0.1:{port}");
    let literal = client(&url, TlsTrust::System, policy, Arc::new(StaticResolver::loopback()));
    let error = literal.get(get()).await.unwrap_err();
    assert_eq!(error, EgressError::TlsUntrusted { fingerprint: server.fingerprint() });
    assert!(proxy.heard().starts_with(format!("CONNECT 10.0.0.1:{port} ").as_bytes()));
}

#[tokio::test]
async fn plain_http_does_not_go_through_a_proxy() {
    let server = FakeServer::http().await;
    let proxy = FakeProxy::to(&server).await;
    let policy = EgressPolicy { proxy: proxy.policy("127.0.0.1").proxy, ..(*loopback_policy()).clone() };
    for host in ["git.example", "127.0.0.1"] {
        let refused = Refusal::PlainHttp { host: host.to_owned() };
        assert_eq!(EgressUrl::parse(&server.url_as(host), &policy), Err(refused.clone()));
        // Saved before there was a proxy.
        let resolver = Arc::new(StaticResolver::loopback());
        let client =
            client(&server.url_as(host), TlsTrust::System, Arc::new(policy.clone()), resolver.clone());
        assert_eq!(client.get(get()).await.unwrap_err(), EgressError::Refused(refused));
        assert_eq!(resolver.asked(), 0);
    }
    assert!(proxy.heard().is_empty() && server.accepted() == 0);
}

#[tokio::test]
async fn a_proxy_that_leads_elsewhere_gets_nothing() {
    let (server, impostor) = (upstream().await, upstream().await);
    let proxy = FakeProxy::to(&impostor).await;
    let presented = impostor.fingerprint();

    let pinned = of(&server, TlsTrust::pin(&server.fingerprint()).unwrap(), &proxy);
    let error = pinned.get(get()).await.unwrap_err();
    assert_eq!(error, EgressError::PinMismatch { presented: presented.clone() });
    assert_eq!(pinned.probe_tls().await, TlsProbe::PinMismatch { presented: presented.clone() });

    let by_authority = of(&server, TlsTrust::CaPem(server.ca_pem()), &proxy);
    let error = by_authority.get(get()).await.unwrap_err();
    assert_eq!(error, EgressError::TlsUntrusted { fingerprint: presented });

    assert!(impostor.accepted() > 0 && impostor.requests().is_empty());

    // The certificate is held against the host's name, not the proxy's.
    let as_proxy = FakeServer::https().await;
    let proxy = FakeProxy::to(&as_proxy).await;
    let error = of(&as_proxy, TlsTrust::CaPem(as_proxy.ca_pem()), &proxy).get(get()).await.unwrap_err();
    assert_eq!(error, EgressError::TlsUntrusted { fingerprint: as_proxy.fingerprint() });
}

#[tokio::test]
async fn a_proxy_that_does_not_tunnel_is_told_from_a_host_that_does_not_answer() {
    const REFUSED: EgressError = EgressError::Broken("the egress proxy refused the tunnel");
    const STRANGE: EgressError = EgressError::Broken("the egress proxy does not answer as a proxy does");
    const GONE: EgressError = EgressError::Broken("the egress proxy closed the connection");
    let server = upstream().await;
    let endless = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 64 * 1024]].concat();
    for (words, expected) in [
        (b"HTTP/1.1 403 Forbidden\r\n\r\nthe body names s3cret hosts".to_vec(), REFUSED),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(), REFUSED),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".to_vec(), REFUSED),
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n".to_vec(), REFUSED),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), STRANGE),
        (endless, STRANGE),
        (b"HTTP/1.1 200 O".to_vec(), GONE),
        (Vec::new(), GONE),
    ] {
        let proxy = FakeProxy::start(Then::Say(words.clone())).await;
        let client = of(&server, TlsTrust::System, &proxy);
        let error = client.get(get()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        assert_eq!(error, expected, "{:?}", String::from_utf8_lossy(&words));
        assert!(!holds(&proxy.heard(), "s3cret"));
    }
    assert_eq!(server.accepted(), 0, "nobody goes around the proxy");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_no_connection() {
    let server = upstream().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let policy = |host: &str| {
        let url = format!("http://{host}:{}", nobody.port());
        Arc::new(EgressPolicy { proxy: Some(ProxyUrl::parse(&url).unwrap()), ..(*loopback_policy()).clone() })
    };
    for (host, resolver) in [
        ("127.0.0.1", StaticResolver::loopback()),
        ("proxy.corp", StaticResolver::loopback()),
        ("proxy.corp", StaticResolver::failing(ResolveError::NotFound)),
        ("proxy.corp", StaticResolver::failing(ResolveError::Unavailable)),
        ("proxy.corp", StaticResolver::new([])),
    ] {
        let client =
            client(&server.url_as("git.example"), TlsTrust::System, policy(host), Arc::new(resolver));
        assert_eq!(client.get(get()).await.unwrap_err(), EgressError::Connect);
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_slow_proxy_has_the_time_of_a_dial() {
    let server = upstream().await;
    for words in [&b""[..], b"HTTP/1.1 200 OK\r\n"] {
        let proxy = FakeProxy::start(Then::Hang(words)).await;
        let client = of(&server, TlsTrust::System, &proxy);
        let start = Instant::now();
        assert_eq!(client.get(get()).await.unwrap_err(), EgressError::Timeout);
        assert!((2..5).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_lookup_of_the_proxy_is_not_waited_for() {
    let policy = EgressPolicy {
        proxy: Some(ProxyUrl::parse("http://proxy.corp:3128").unwrap()),
        ..(*loopback_policy()).clone()
    };
    let slow = Arc::new(SlowResolver(Duration::from_secs(30)));
    let client = client("https://git.example", TlsTrust::System, Arc::new(policy), slow);
    let start = tokio::time::Instant::now();
    assert_eq!(client.get(get()).await.unwrap_err(), EgressError::Timeout);
    assert_eq!(start.elapsed().as_secs(), 3);
}
