//! Answers kept for `Idempotency-Key`, so that a POST that is sent twice is done once.

use mcp_core::id::PrincipalId;
use serde_json::Value;

use crate::error::TenancyError;
use crate::tx::TenantTx;

/// Which request is meant: one principal, one route, one key.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    /// Who asks. Keys of two principals never meet.
    pub principal: PrincipalId,
    /// The route's name.
    pub route: &'a str,
    /// The header's value, 1 to 200 characters.
    pub key: &'a str,
}

/// An answer that was given before.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAnswer {
    /// SHA-256 of the request. A different one under the same key is the client's mistake.
    pub request_hash: [u8; 32],
    /// The status code.
    pub status: u16,
    /// The body, without the secret that was shown once.
    pub response: Value,
}

/// The answer stored under this key within the last 24 hours.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn idempotency_get(
    tx: &TenantTx,
    key: IdempotencyKey<'_>,
) -> Result<Option<StoredAnswer>, TenancyError> {
    let sql = "select request_hash, status, response from idempotency_keys \
               where tenant_id = $1 and principal_id = $2 and route = $3 and key = $4 \
                 and created_at > now() - interval '24 hours'";
    let found =
        tx.query_opt(sql, &[&tx.tenant().as_uuid(), &key.principal.as_uuid(), &key.route, &key.key]).await?;
    let Some(row) = found else { return Ok(None) };
    let hash: &[u8] = row.try_get(0)?;
    let status: i16 = row.try_get(1)?;
    let wrong = |_| TenancyError::Internal("a stored idempotency row is malformed".into());
    Ok(Some(StoredAnswer {
        request_hash: hash.try_into().map_err(wrong)?,
        status: u16::try_from(status)
            .map_err(|_| TenancyError::Internal("a stored status is negative".into()))?,
        response: row.try_get(2)?,
    }))
}

/// Stores an answer, in the transaction of the change that it answers. Old entries of the tenant are removed on the way.
///
/// # Errors
/// [`TenancyError::Conflict`] when another request with this key has committed in between: roll back, then
/// [`idempotency_get`] gives its answer.
pub async fn idempotency_put(
    tx: &TenantTx,
    key: IdempotencyKey<'_>,
    answer: &StoredAnswer,
) -> Result<(), TenancyError> {
    let purge =
        "delete from idempotency_keys where tenant_id = $1 and created_at <= now() - interval '24 hours'";
    tx.execute(purge, &[&tx.tenant().as_uuid()]).await?;
    let status = i16::try_from(answer.status).map_err(|_| TenancyError::Invalid(None))?;
    let insert = "insert into idempotency_keys \
                  (tenant_id, principal_id, route, key, request_hash, status, response) \
                  values ($1, $2, $3, $4, $5, $6, $7)";
    let hash = answer.request_hash.as_slice();
    tx.execute(
        insert,
        &[
            &tx.tenant().as_uuid(),
            &key.principal.as_uuid(),
            &key.route,
            &key.key,
            &hash,
            &status,
            &answer.response,
        ],
    )
    .await?;
    Ok(())
}
