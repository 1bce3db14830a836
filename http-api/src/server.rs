//! The server loop: one listener, bounded connections, timeouts, graceful end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::network::PeerAddr;
use crate::tls::ServerTls;

/// Limits of one listener.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Time for a request's headers to arrive.
    pub header_timeout: Duration,
    /// Most bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            header_timeout: Duration::from_secs(10),
            header_bytes: 64 * 1024,
            handshake_timeout: Duration::from_secs(5),
        }
    }
}

/// Serves a router on a listener.
pub struct Server {
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    tls: Option<ServerTls>,
}

impl Server {
    /// A server for this listener, without TLS.
    #[must_use]
    pub fn new(listener: TcpListener, router: Router, limits: ServerLimits) -> Self {
        Self { listener, router, limits, tls: None }
    }

    /// The same with TLS, and nothing else, on the listener. The certificate is replaced when its files are.
    #[must_use]
    pub fn with_tls(self, tls: ServerTls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Serves until `shutdown`, then stops accepting and waits up to `grace` for connections to end. Those that remain
    /// are closed.
    pub async fn run(self, shutdown: CancellationToken, grace: Duration) {
        let Self { listener, router, limits, tls } = self;
        let connections = TaskTracker::new();
        let acceptor = tls.as_ref().map(ServerTls::acceptor);
        if let Some(tls) = tls {
            connections.spawn(tls.keep_up(shutdown.clone()));
        }
        let places = Arc::new(Semaphore::new(limits.connections));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&listener, &places) => accepted,
            };
            let Some((stream, peer, place)) = accepted else { continue };
            let router = router.clone();
            // A socket that outlives its connection (an agent's) keeps the place.
            let place: ConnectionPlace = Arc::new(place);
            let held = Arc::clone(&place);
            let service = tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let mut request: Request = request.map(axum::body::Body::new);
                request.extensions_mut().insert(PeerAddr(peer));
                request.extensions_mut().insert(Arc::clone(&held));
                router.clone().oneshot(request)
            });
            let (shutdown, acceptor) = (shutdown.clone(), acceptor.clone());
            connections.spawn(async move {
                match acceptor {
                    None => serve_connection(stream, service, limits, shutdown).await,
                    Some(acceptor) => {
                        let accepting = acceptor.accept(stream);
                        match tokio::time::timeout(limits.handshake_timeout, accepting).await {
                            Ok(Ok(stream)) => serve_connection(stream, service, limits, shutdown).await,
                            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                            Err(_) => tracing::debug!("a TLS handshake took too long"),
                        }
                    }
                }
                drop(place);
            });
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            tracing::warn!("connections were still open at the end of the grace period");
        }
    }
}

async fn serve_connection<I, S>(stream: I, service: S, limits: ServerLimits, shutdown: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: tower::Service<
            hyper::Request<hyper::body::Incoming>,
            Response = axum::response::Response,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // What a peer does to its own connection is its own affair; the log keeps quiet about it.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// A place among the connections, kept by whatever still uses the socket.
pub(crate) type ConnectionPlace = Arc<tokio::sync::OwnedSemaphorePermit>;

type Accepted = (tokio::net::TcpStream, std::net::SocketAddr, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    // The place is taken first, so that a full server leaves new connections in the kernel's queue.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Small frames must not wait for each other.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
            Some((stream, peer, place))
        }
        Err(error) => {
            // Most likely out of file descriptors: wait for some to come back rather than spin.
            tracing::error!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
