//! What an upstream answered.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;

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
