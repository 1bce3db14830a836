//! Connections between requests. One pool per client, and a client is one tenant's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::dial::Stream;
use crate::error::EgressError;

/// A new connection vets its addresses again, so that an idle one must not live for long.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// More are closed after their answer.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// Bounds the head of an answer, and what is read ahead of its body.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// A connection that speaks HTTP/1.1. Closed when dropped.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
}

impl Connection {
    pub(crate) async fn over(stream: Box<dyn Stream>) -> Result<Self, EgressError> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| EgressError::Broken("the connection closed before the request"))?;
        // Its errors come out at the request.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, driver })
    }

    /// Sends, and waits for the head of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, EgressError> {
        self.sender
            .ready()
            .await
            .map_err(|_| EgressError::Broken("the connection closed before the request"))?;
        self.sender
            .send_request(request)
            .await
            .map_err(|_| EgressError::Broken("no HTTP answer came before the connection closed"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Idle connections, the freshest last.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<(Connection, Instant)>>>);

impl Pool {
    /// An idle connection that its peer has not closed, as far as we know.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(is_usable);
        idle.pop().map(|(connection, _)| connection)
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(is_usable);
        if connection.sender.is_closed() || idle.len() >= MAX_IDLE_CONNECTIONS {
            return;
        }
        idle.push((connection, Instant::now()));
        // Closes it in time even if no request comes; a dropped client is not kept by it.
        let pool = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(MAX_IDLE).await;
            if let Some(idle) = pool.upgrade() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).retain(is_usable);
            }
        });
    }
}

fn is_usable((connection, since): &(Connection, Instant)) -> bool {
    since.elapsed() < MAX_IDLE && !connection.sender.is_closed()
}
