//! One HTTP request over a fresh connection: all that enrolling and `doctor` need.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;

use crate::dial::{DialError, Dialer};

/// Time for request and answer, the connection included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Largest answer, bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// Status and body. Redirects are not followed: nobody may send a token elsewhere.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// No answer came.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// There was no connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// What came is no HTTP, or broke off.
    #[error("the connection broke off")]
    Broken(#[source] hyper::Error),
    /// The answer cannot be read or is larger than 64 KiB.
    #[error("the answer cannot be read")]
    Body,
    /// It took longer than 20 s.
    #[error("no answer within 20 s")]
    TimedOut,
}

pub(crate) async fn get(dialer: &Dialer, endpoint: &str) -> Result<Answer, HttpError> {
    send(dialer, "GET", endpoint, Bytes::new()).await
}

pub(crate) async fn post_json(dialer: &Dialer, endpoint: &str, json: Vec<u8>) -> Result<Answer, HttpError> {
    send(dialer, "POST", endpoint, json.into()).await
}

async fn send(dialer: &Dialer, method: &str, endpoint: &str, body: Bytes) -> Result<Answer, HttpError> {
    let request = Request::builder()
        .method(method)
        .uri(dialer.url().path_of(endpoint))
        .header(HOST, dialer.url().authority())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .expect("a path of ours and the authority of a parsed URL make a request");
    let exchange = async {
        let stream = TokioIo::new(dialer.dial().await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(HttpError::Broken)?;
        let answer = async {
            let (head, body) = sender.send_request(request).await.map_err(HttpError::Broken)?.into_parts();
            let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(|_| HttpError::Body)?;
            Ok(Answer { status: head.status.as_u16(), body: body.to_bytes() })
        };
        // The connection has to be driven for as long as the answer is awaited; that it broke is what the answer says.
        let connection = async {
            let _ = connection.await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            answer = answer => answer,
            never = connection => match never {},
        }
    };
    tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.map_err(|_| HttpError::TimedOut)?
}
