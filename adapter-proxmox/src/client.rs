//! One token's view of one Proxmox VE: it can ask for an endpoint and nothing else.

use std::borrow::Cow;

use egress::{Get, Response, UpstreamClient};
use serde::de::DeserializeOwned;

use crate::endpoint::Endpoint;
use crate::envelope::{NoData, unwrap_data};
use crate::error::{Refusal, Trouble};
use crate::token::PveToken;

/// Enough of a refusal to recognise it; the rest is not looked at.
const LOOKED_AT_BYTES: usize = 4096;

/// Asks with one token. Dropping a request's future aborts the request.
pub(crate) struct PveClient<'a> {
    upstream: &'a UpstreamClient,
    token: &'a PveToken,
}

impl<'a> PveClient<'a> {
    pub(crate) fn new(upstream: &'a UpstreamClient, token: &'a PveToken) -> Self {
        Self { upstream, token }
    }

    /// Asks, and takes the data out of the answer.
    pub(crate) async fn get<T: DeserializeOwned>(&self, endpoint: Endpoint<'_>) -> Result<T, Trouble> {
        match self.get_once(endpoint).await {
            // Busy clusters answer so before libpve-http-server-perl 5.1.2, and well a moment later.
            Err(Trouble::Refused(Refusal::NodeProxy)) => self.get_once(endpoint).await,
            answered => answered,
        }
    }

    async fn get_once<T: DeserializeOwned>(&self, endpoint: Endpoint<'_>) -> Result<T, Trouble> {
        let request = Get::path(endpoint.segments()).secret_header("authorization", self.token.header());
        let response = self.upstream.get(request).await.map_err(Trouble::Egress)?;
        if let Some(refusal) = refusal_of(&response) {
            return Err(Trouble::Refused(refusal));
        }
        let body = std::str::from_utf8(&response.body).map_err(|_| NoData)?;
        Ok(unwrap_data(&without_echo(body, self.token.secret()))?)
    }
}

/// A refusal is known by its status even when its body is cut off: servers before April 2025 close without
/// `close_notify`, and a 401 has no body at all.
fn refusal_of(response: &Response) -> Option<Refusal> {
    let looked_at = response.body.get(..LOOKED_AT_BYTES).unwrap_or(&response.body);
    let body = String::from_utf8_lossy(looked_at);
    let text = format!("{}\n{body}", response.reason.as_deref().unwrap_or_default());
    let retry_after = response.headers.get("retry-after").and_then(|value| value.to_str().ok());
    Refusal::of(response.status, &text, retry_after.and_then(|seconds| seconds.trim().parse().ok()))
}

/// An upstream that repeats our secret does not get it into a result.
fn without_echo<'a>(body: &'a str, secret: &str) -> Cow<'a, str> {
    if body.contains(secret) { Cow::Owned(body.replace(secret, "[REDACTED]")) } else { Cow::Borrowed(body) }
}
