//! The fake upstream.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use ring::digest;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::reply::{After, Reply};
use crate::trust::hex;

static TLS12_ONLY: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];

/// A request that the server saw.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method, as sent.
    pub method: String,
    /// The path, still encoded.
    pub path: String,
    /// What followed `?`; empty without one.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
}

type Answer = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

#[derive(Default)]
struct State {
    routes: Mutex<HashMap<String, Answer>>,
    fallback: Mutex<Option<Answer>>,
    seen: Mutex<Vec<Seen>>,
    accepted: AtomicUsize,
}

/// A server on 127.0.0.1, at a port of its own. Stops when dropped.
pub struct FakeServer {
    address: SocketAddr,
    identity: Option<Identity>,
    state: Arc<State>,
    accepting: AbortHandle,
}

/// The certificate of a server.
#[derive(Clone)]
struct Identity {
    ca_pem: String,
    leaf: CertificateDer<'static>,
    key: Arc<[u8]>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl FakeServer {
    /// Serves HTTPS for `127.0.0.1` and `localhost`, with a certificate of an authority of its own.
    pub async fn https() -> Self {
        Self::https_for(&["127.0.0.1", "localhost"]).await
    }

    /// Serves HTTPS with a certificate for these names only.
    pub async fn https_for(names: &[&str]) -> Self {
        Self::start(Identity::of_authority(names)).await
    }

    /// Serves HTTPS with a certificate that is its own authority, as appliances do.
    pub async fn https_self_signed() -> Self {
        Self::start(Identity::self_signed(&["127.0.0.1", "localhost"])).await
    }

    /// Serves HTTPS with one version of TLS only.
    pub async fn https_tls12_only() -> Self {
        let identity = Identity::of_authority(&["127.0.0.1", "localhost"]);
        Self::start(Identity { versions: &TLS12_ONLY, ..identity }).await
    }

    /// Serves HTTPS at another address of this machine, such as 127.0.0.2 where the system has it.
    pub async fn https_at(address: IpAddr) -> Self {
        let identity = Identity::of_authority(&[&address.to_string(), "localhost"]);
        let tls = identity.acceptor();
        Self::listen(address, Some(identity), Some(tls)).await
    }

    /// Shows the certificate of another server, which is public, but has not got its key. Speaks the same versions.
    ///
    /// # Panics
    /// If the other serves plain HTTP.
    pub async fn https_without_the_key_of(other: &Self) -> Self {
        let identity = Identity { key: new_key().serialize_der().into(), ..other.identity().clone() };
        Self::start(identity).await
    }

    /// Serves plain HTTP.
    pub async fn http() -> Self {
        Self::listen(Ipv4Addr::LOCALHOST.into(), None, None).await
    }

    async fn start(identity: Identity) -> Self {
        let tls = identity.acceptor();
        Self::listen(Ipv4Addr::LOCALHOST.into(), Some(identity), Some(tls)).await
    }

    async fn listen(address: IpAddr, identity: Option<Identity>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound listener has an address");
        let state = Arc::new(State::default());
        let accepting = tokio::spawn(accept(listener, tls, Arc::clone(&state))).abort_handle();
        Self { address, identity, state, accepting }
    }

    /// `https://127.0.0.1:PORT`, or `http://…`.
    pub fn url(&self) -> String {
        self.url_as(&self.address.ip().to_string())
    }

    /// The same with another host, for a resolver to lead here.
    pub fn url_as(&self, host: &str) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of its certificate, lower-case hex.
    ///
    /// # Panics
    /// If it serves plain HTTP.
    pub fn fingerprint(&self) -> String {
        hex(digest::digest(&digest::SHA256, &self.identity().leaf).as_ref())
    }

    /// The certificate of its authority, in PEM.
    ///
    /// # Panics
    /// If it serves plain HTTP.
    pub fn ca_pem(&self) -> String {
        self.identity().ca_pem.clone()
    }

    fn identity(&self) -> &Identity {
        self.identity.as_ref().expect("a server of plain HTTP has no certificate")
    }

    /// From now on, answers this path, or with a `?` this path and query, both as they are on the wire. What names a
    /// query goes first.
    pub fn on(&self, path_and_maybe_query: &str, reply: Reply) {
        self.on_fn(path_and_maybe_query, move |_| reply.clone());
    }

    /// Answers a path with one reply after the other, and the last for ever.
    ///
    /// # Panics
    /// If there is none.
    pub fn on_each(&self, path_and_maybe_query: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies: Vec<Reply> = replies.into_iter().collect();
        assert!(!replies.is_empty(), "there is nothing to answer");
        let turn = AtomicUsize::new(0);
        self.on_fn(path_and_maybe_query, move |_| {
            let turn = turn.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
            replies[turn].clone()
        });
    }

    /// Answers a path with what the function makes of the request.
    pub fn on_fn(&self, path_and_maybe_query: &str, answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        let mut routes = self.state.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.insert(path_and_maybe_query.to_owned(), Arc::new(answer));
    }

    /// Answers everything else. Without it that is 404 without a body.
    pub fn fallback(&self, reply: Reply) {
        let mut fallback = self.state.fallback.lock().unwrap_or_else(PoisonError::into_inner);
        *fallback = Some(Arc::new(move |_| reply.clone()));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many TCP connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Identity {
    fn of_authority(names: &[&str]) -> Self {
        let mut ca = params(&[], "fake authority");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, new_key()).expect("the parameters are fixed");
        let key = new_key();
        let leaf = params(names, "fake upstream").signed_by(&key, &ca).expect("the parameters are fixed");
        Self {
            ca_pem: ca.pem(),
            leaf: leaf.der().clone(),
            key: key.serialize_der().into(),
            versions: rustls::ALL_VERSIONS,
        }
    }

    fn self_signed(names: &[&str]) -> Self {
        let key = new_key();
        let leaf = params(names, "fake appliance").self_signed(&key).expect("the parameters are fixed");
        Self {
            ca_pem: leaf.pem(),
            leaf: leaf.der().clone(),
            key: key.serialize_der().into(),
            versions: rustls::ALL_VERSIONS,
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = provider
            .key_provider
            .load_private_key(PrivatePkcs8KeyDer::from(self.key.to_vec()).into())
            .expect("the key is new");
        let shown = CertifiedKey::new(vec![self.leaf.clone()], key);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(self.versions)
            .expect("ring speaks both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        TlsAcceptor::from(Arc::new(config))
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has randomness")
}

fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the names are ASCII");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        state.accepted.fetch_add(1, Ordering::SeqCst);
        // Head and body are written apart; a measurement must not wait for the kernel to put them together.
        let _ = tcp.set_nodelay(true);
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        // The set ends them all when the server is dropped.
        connections.spawn(async move {
            // A peer that goes away is part of the play.
            let _ = connection(tcp, tls, &state).await;
        });
    }
}

async fn connection(tcp: TcpStream, tls: Option<TlsAcceptor>, state: &State) -> std::io::Result<()> {
    match tls {
        None => {
            let mut tcp = tcp;
            finish(serve(&mut tcp, state).await?, &tcp);
        }
        Some(tls) => {
            let mut stream = tls.accept(tcp).await?;
            let after = serve(&mut stream, state).await?;
            if after == After::Close {
                stream.shutdown().await?;
            }
            finish(after, stream.get_ref().0);
        }
    }
    Ok(())
}

fn finish(after: After, tcp: &TcpStream) {
    if after == After::Reset {
        let _ = tcp.set_zero_linger();
    }
}

async fn serve(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), state: &State) -> std::io::Result<After> {
    let mut unread = Vec::new();
    while let Some(seen) = next_request(stream, &mut unread).await? {
        state.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        let after = state.answer(&seen).write(stream).await?;
        stream.flush().await?;
        if after != After::Keep {
            return Ok(after);
        }
    }
    Ok(After::Close)
}

impl State {
    fn answer(&self, seen: &Seen) -> Reply {
        let exact = format!("{}?{}", seen.path, seen.query);
        let answer = {
            let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            routes.get(&exact).or_else(|| routes.get(&seen.path)).cloned()
        };
        let answer = answer.or_else(|| self.fallback.lock().unwrap_or_else(PoisonError::into_inner).clone());
        answer.map_or_else(|| Reply::raw(404, "", &[], ""), |answer| answer(seen))
    }
}

/// Reads one head. A `GET` has no body, and a request that does is still recorded.
async fn next_request(
    stream: &mut (impl AsyncRead + Unpin),
    unread: &mut Vec<u8>,
) -> std::io::Result<Option<Seen>> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = unread.drain(..end + 4).collect();
            return Ok(Some(parse(&String::from_utf8_lossy(&head))));
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await? {
            0 => return Ok(None),
            read => unread.extend_from_slice(&chunk[..read]),
        }
    }
}

fn parse(head: &str) -> Seen {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    Seen { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), headers }
}
