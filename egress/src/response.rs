//! What an upstream answered.

use std::error::Error;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;

use crate::error::EgressError;

/// What is kept of a body. More is not read.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A response, read to its end.
pub struct Response {
    /// The status, also of kinds that no standard knows (595, 596).
    pub status: u16,
    /// The words after the status, if any. Text of the upstream: look at it, do not repeat it.
    pub reason: Option<String>,
    /// The headers. Text of the upstream.
    pub headers: HeaderMap,
    /// The body, at most 4 MiB, as it was sent: no encoding was asked for and none is undone.
    pub body: Bytes,
    /// Whether the body is known to be whole. False when the peer closed without `close_notify` or before the length
    /// it had promised; the body is then empty if the status is 400 or more, and else what came.
    pub body_complete: bool,
}

/// Without headers and body, which are the upstream's text and may echo a credential.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .field("body_complete", &self.body_complete)
            .finish_non_exhaustive()
    }
}

/// Reads an answer to its end.
pub(crate) async fn read(head: http::Response<Incoming>) -> Result<Response, EgressError> {
    let (parts, body) = head.into_parts();
    let status = parts.status.as_u16();
    let reason = match parts.extensions.get::<ReasonPhrase>() {
        Some(phrase) => Some(String::from_utf8_lossy(phrase.as_bytes()).into_owned()),
        None => parts.status.canonical_reason().map(str::to_owned),
    };
    let (body, body_complete) = match collect(body).await {
        Ok(whole) => (whole, true),
        Err(BodyError::TooLarge) => return Err(EgressError::TooLarge),
        // The status is what counts, and half an error page helps nobody.
        Err(BodyError::Ended(_) | BodyError::Broken) if status >= 400 => (Bytes::new(), false),
        Err(BodyError::Ended(part)) => (part, false),
        Err(BodyError::Broken) => return Err(EgressError::Broken("the body of the answer broke off")),
    };
    Ok(Response { status, reason, headers: parts.headers, body, body_complete })
}

enum BodyError {
    TooLarge,
    /// The peer closed, without saying that this is the end.
    Ended(Bytes),
    Broken,
}

async fn collect(mut body: Incoming) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            // Trailers are dropped.
            Ok(frame) => {
                let Ok(data) = frame.into_data() else { continue };
                if collected.len() + data.len() > MAX_BODY_BYTES {
                    return Err(BodyError::TooLarge);
                }
                collected.extend_from_slice(&data);
            }
            Err(error) if is_end(&error) => return Err(BodyError::Ended(collected.freeze())),
            Err(_) => return Err(BodyError::Broken),
        }
    }
    Ok(collected.freeze())
}

/// Whether the peer closed in order: of its length too early, or in TLS without `close_notify`, as servers of
/// Proxmox VE did until April 2025.
fn is_end(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
