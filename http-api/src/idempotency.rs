//! `Idempotency-Key` on requests that create something: sent twice, done once.
//!
//! The stored answer stands in the transaction of the change itself, so there is no moment in which one exists without
//! the other. What was shown once (a key, a token) is not stored; a replay answers with `null` in its place.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_core::error::ErrorCode;
use mcp_core::principal::Principal;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tenancy::TenantTx;
use tenancy::idempotency::{IdempotencyKey, StoredAnswer, idempotency_get, idempotency_put};

use crate::error::ApiError;
use crate::json::Answer;

const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotent-replayed";

/// The key of one request, if it carries one.
pub(crate) struct Idempotency<'a> {
    key: Option<IdempotencyKey<'a>>,
    request_hash: [u8; 32],
}

impl<'a> Idempotency<'a> {
    /// Reads the header. `body` is what makes a second request "the same".
    pub(crate) fn of(
        headers: &'a HeaderMap,
        principal: &Principal,
        route: &'static str,
        body: &[u8],
    ) -> Result<Self, ApiError> {
        let key = match headers.get(HEADER) {
            None => None,
            Some(value) => {
                let key = value.to_str().ok().filter(|key| (1..=200).contains(&key.len()));
                let key = key.ok_or_else(|| {
                    ApiError::invalid("Idempotency-Key", "the key must have 1 to 200 visible characters")
                })?;
                Some(IdempotencyKey { principal: principal.id, route, key })
            }
        };
        let mut request_hash = [0; 32];
        request_hash.copy_from_slice(digest(&SHA256, body).as_ref());
        Ok(Self { key, request_hash })
    }

    /// The answer that was given before, if there was one.
    pub(crate) async fn replay(&self, tx: &TenantTx) -> Result<Option<Response>, ApiError> {
        let Some(key) = self.key else { return Ok(None) };
        // Of two requests with one key at once, the second waits here until the first has committed, and then replays.
        let lock = "select pg_advisory_xact_lock(hashtextextended($1, 0))";
        let name = format!("{}/{}/{}", key.principal, key.route, key.key);
        tx.query(lock, &[&name]).await?;
        let Some(stored) = idempotency_get(tx, key).await? else { return Ok(None) };
        if stored.request_hash != self.request_hash {
            let message = "this Idempotency-Key was used for another request; use a new one";
            return Err(ApiError::new(ErrorCode::Conflict, message));
        }
        let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
        let mut response = Answer(status, stored.response).into_response();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(Some(response))
    }

    /// Stores the answer beside the change. `response` must not hold a secret.
    pub(crate) async fn keep(
        &self,
        tx: &TenantTx,
        status: StatusCode,
        response: Value,
    ) -> Result<(), ApiError> {
        let Some(key) = self.key else { return Ok(()) };
        let answer = StoredAnswer { request_hash: self.request_hash, status: status.as_u16(), response };
        Ok(idempotency_put(tx, key, &answer).await?)
    }
}
