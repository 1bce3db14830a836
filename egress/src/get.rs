//! A request. There is one kind: a read.

use std::fmt;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;
use url::Url;
use zeroize::Zeroizing;

use crate::client::UpstreamClient;
use crate::error::EgressError;
use crate::refusal::Refusal;
use crate::target::{EgressUrl, has_doubtful_characters, has_unusual_slashes};

/// All but the unreserved characters of RFC 3986, so that no argument ends a segment or begins a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What the client sets itself, or must not be said at all.
const NOT_THE_CALLERS: [&str; 9] = [
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "host",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// One `GET`. Nothing is checked before it is sent, when a part that cannot be sent is an [`EgressError::Request`].
#[derive(Clone)]
pub struct Get {
    target: Target,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, Value)>,
    deadline: Option<Instant>,
}

#[derive(Clone)]
enum Target {
    /// Below the base.
    Segments(Vec<String>),
    /// Path and query of a link, already encoded.
    Link(String),
}

#[derive(Clone)]
enum Value {
    Plain(String),
    Secret(Zeroizing<String>),
}

impl Get {
    /// Asks for the base URL with these segments behind it. Each is percent-encoded; `""`, `"."` and `".."`, which
    /// mean another path, are refused when it is sent.
    pub fn path(segments: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let segments = segments.into_iter().map(|segment| segment.as_ref().to_owned()).collect();
        Self { target: Target::Segments(segments), query: Vec::new(), headers: Vec::new(), deadline: None }
    }

    /// Adds a parameter. Never a secret: queries end up in logs.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, Value::Plain(value.to_owned())));
        self
    }

    /// Adds a header that holds a credential. Our copy is wiped after use and shown by no `Debug`.
    #[must_use]
    pub fn secret_header(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        self.headers.push((name, Value::Secret(Zeroizing::new(value.as_ref().to_owned()))));
        self
    }

    /// Sets when to give up. Without it, or when it is later, that is 10 s after the start of the request.
    #[must_use]
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// Follows a redirect or a link that an answer to this request gave: same headers and deadline, path and query
    /// of the link. The base keeps its scheme, host and port, so that a credential stays where it was given to.
    ///
    /// # Errors
    /// [`Refusal::OtherOrigin`] for another scheme, host or port, and what [`EgressUrl::parse`] refuses.
    pub fn follow_same_origin(mut self, location: &str, client: &UpstreamClient) -> Result<Self, Refusal> {
        if has_doubtful_characters(location) {
            return Err(Refusal::Malformed("has whitespace, control characters or a backslash"));
        }
        if has_unusual_slashes(location) {
            return Err(Refusal::Malformed("has a scheme without a host"));
        }
        let path = self.path_and_query(client.base()).map_err(|_| Refusal::Malformed("does not parse"))?;
        let here = client.base().as_url().join(&path);
        let mut link =
            here.and_then(|here| here.join(location)).map_err(|_| Refusal::Malformed("does not parse"))?;
        // For a reader of pages, and not sent.
        link.set_fragment(None);
        EgressUrl::vet(&link, location, client.policy())?;
        if !client.base().same_origin(&link) {
            return Err(Refusal::OtherOrigin);
        }
        self.query.clear();
        self.target = Target::Link(path_and_query(&link));
        Ok(self)
    }

    pub(crate) fn deadline_or(&self, latest: Instant) -> Instant {
        self.deadline.map_or(latest, |at| at.min(latest))
    }

    /// Path and query, as they go on the wire.
    pub(crate) fn uri(&self, base: &EgressUrl) -> Result<Uri, EgressError> {
        self.path_and_query(base)?.parse().map_err(|_| EgressError::Request("the path is too long"))
    }

    fn path_and_query(&self, base: &EgressUrl) -> Result<String, EgressError> {
        let mut text = match &self.target {
            Target::Link(link) => link.clone(),
            Target::Segments(segments) => {
                let mut text = base.as_url().path().trim_end_matches('/').to_owned();
                for segment in segments {
                    if matches!(segment.as_str(), "" | "." | "..") {
                        return Err(EgressError::Request("a path segment is empty, \".\" or \"..\""));
                    }
                    text.push('/');
                    text.extend(utf8_percent_encode(segment, ENCODED));
                }
                if text.is_empty() {
                    text.push('/');
                }
                if let Some(query) = base.as_url().query() {
                    text.push('?');
                    text.push_str(query);
                }
                text
            }
        };
        for (name, value) in &self.query {
            text.push(if text.contains('?') { '&' } else { '?' });
            text.extend(utf8_percent_encode(name, ENCODED));
            text.push('=');
            text.extend(utf8_percent_encode(value, ENCODED));
        }
        Ok(text)
    }

    pub(crate) fn header_map(&self) -> Result<HeaderMap, EgressError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .filter(|name| !NOT_THE_CALLERS.contains(&name.as_str()))
                .ok_or(EgressError::Request("a header may not be set"))?;
            headers.insert(
                name,
                value
                    .to_header()
                    .ok_or(EgressError::Request("a header has a character that none may have"))?,
            );
        }
        Ok(headers)
    }
}

impl Value {
    fn to_header(&self) -> Option<HeaderValue> {
        match self {
            Self::Plain(text) => HeaderValue::from_str(text).ok(),
            Self::Secret(text) => {
                // The header borrows a buffer that is wiped with its last owner.
                let mut value = HeaderValue::from_maybe_shared(Bytes::from_owner(text.clone())).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
        }
    }
}

pub(crate) fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Names of headers only: arguments and credentials are in the rest.
impl fmt::Debug for Get {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Get").field("headers", &headers).finish_non_exhaustive()
    }
}
