//! Targets: list, enrolment of a host, revocation.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use mcp_core::audit::EventType;
use mcp_core::error::{CallError, ErrorCode};
use mcp_core::id::{TargetId, TenantId};
use mcp_core::tool::AdapterKind;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenancy::TenancyError;
use tenancy::outbox::{new_event_id, outbox_put};
use tenancy::stores::adapter::{Validation, adapter_validations};
use tenancy::stores::agent::{enrolment_create, target_revoke};
use tenancy::stores::target::{Target, TargetCursor, TargetRef, target_get, target_list};
use time::OffsetDateTime;

use super::rfc3339;
use crate::api::Api;
use crate::cursor::{PageQuery, cut_page};
use crate::error::ApiError;
use crate::gate::Caller;
use crate::idempotency::Idempotency;
use crate::json::{Answer, StrictJson, StrictQuery};

/// How long an enrolment token is good.
const ENROLMENT_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Seen within this many seconds: green.
const GREEN_SEC: i64 = 45;
/// Seen within this many seconds: yellow.
const YELLOW_SEC: i64 = 120;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetPage {
    targets: Vec<TargetView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TargetView {
    id: TargetId,
    name: String,
    kind: &'static str,
    status: &'static str,
    hostname: Option<String>,
    os: Option<String>,
    version: Option<String>,
    last_seen: Option<String>,
    created_at: String,
}

/// The tenant's targets within the key's narrowing, by name.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(page): StrictQuery<PageQuery>,
) -> Result<Answer<TargetPage>, ApiError> {
    let limit = page.limit()?;
    let key = &api.settings.cursor_key;
    let after = match &page.cursor {
        Some(cursor) => {
            let (name, target_id) = key.open(principal.tenant, "targets", cursor)?;
            Some(TargetCursor { name, target_id })
        }
        None => None,
    };
    let tx = api.tenancy.tx(principal.tenant).await?;
    let mut targets = target_list(&tx, after.as_ref(), limit + 1).await?;
    let ids: Vec<_> = targets.iter().map(|target| target.target_id).collect();
    let validations = adapter_validations(&tx, &ids).await?;
    tx.commit().await?;
    let has_more = cut_page(&mut targets, limit);
    let last = targets.last().filter(|_| has_more);
    let next_cursor = last.map(|last| key.seal(principal.tenant, "targets", &(&last.name, last.target_id)));
    let now = OffsetDateTime::now_utc();
    let covered = targets.into_iter().filter(|target| principal.grants.cover_target(target.target_id));
    let status = |target: &Target| match validations.get(&target.target_id) {
        Some(validated) => checked_status(*validated),
        None => host_status(&api, principal.tenant, target, now),
    };
    let targets = covered.map(|target| view(status(&target), target)).collect();
    Ok(Answer(StatusCode::OK, TargetPage { targets, next_cursor }))
}

/// A host is as well as its link and its last heartbeat.
fn host_status(api: &Api, tenant: TenantId, target: &Target, now: OffsetDateTime) -> &'static str {
    let age = target.last_seen_at.map(|seen| (now - seen).whole_seconds());
    match age {
        // A host whose link is gone is not green, however lately it was heard of.
        Some(age) if age <= GREEN_SEC && api.hub.is_connected(tenant, target.target_id) => "green",
        Some(age) if age <= YELLOW_SEC => "yellow",
        Some(_) | None => "red",
    }
}

/// An adapter is as well as its last check.
fn checked_status(validated: Validation) -> &'static str {
    match validated {
        Validation::Ok => "green",
        Validation::Partial | Validation::NeverVerified => "yellow",
        Validation::Failed => "red",
    }
}

fn view(status: &'static str, target: Target) -> TargetView {
    TargetView {
        id: target.target_id,
        name: target.name,
        kind: target.kind.as_str(),
        status,
        hostname: target.hostname,
        os: target.os,
        version: target.version,
        last_seen: target.last_seen_at.map(rfc3339),
        created_at: rfc3339(target.created_at),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnrollBody {
    name: String,
}

/// Makes a single-use token for one host, shown once.
pub(crate) async fn enroll(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: StrictJson<EnrollBody>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, &principal, "targets.enroll", &body.bytes)?;
    let name = body.value.name;
    let tx = api.tenancy.tx(principal.tenant).await?;
    if let Some(replay) = idempotency.replay(&tx).await? {
        return Ok(replay);
    }
    match target_get(&tx, TargetRef::Name(&name)).await {
        Err(TenancyError::NotFound) => {}
        Ok(_) => {
            return Err(ApiError::new(
                ErrorCode::Conflict,
                "a target of that name exists; choose another name",
            ));
        }
        Err(error) => return Err(error.into()),
    }
    let token = fresh_token()?;
    let hash = token_hash(&token);
    let created = enrolment_create(&tx, &name, &hash, ENROLMENT_LIFETIME, Some(principal.id)).await;
    let enrolment = created.map_err(|error| match error {
        TenancyError::Invalid(_) => {
            ApiError::invalid("name", "a name has 1 to 63 of a-z, 0-9, dot, hyphen and underscore")
        }
        other => other.into(),
    })?;
    let event =
        json!({ "actor": principal.id, "enrolmentId": enrolment.enrolment_id, "name": enrolment.name });
    outbox_put(&tx, new_event_id(), EventType::EnrolmentCreated.as_str(), &event).await?;
    let expires_at = rfc3339(enrolment.expires_at);
    let kept = json!({ "token": null, "command": null, "expiresAt": expires_at });
    idempotency.keep(&tx, StatusCode::CREATED, kept).await?;
    tx.commit().await?;
    api.audit.outbox_changed();
    let command = enroll_command(&api.settings.public_url, &token);
    let answer = json!({ "token": token, "command": command, "expiresAt": expires_at });
    Ok(Answer(StatusCode::CREATED, answer).into_response())
}

/// One line to paste on the host. The token goes through standard input, so it shows up in no process list.
fn enroll_command(public_url: &str, token: &str) -> String {
    // A directory that whoever pastes this can make; the agent refuses to run as root.
    let state = "--state-dir \"$HOME/.local/state/coreci-relay\"";
    format!(
        "printf %s '{token}' | relay-agent enroll --url {public_url} {state} --token-stdin && \
         relay-agent run {state}"
    )
}

fn fresh_token() -> Result<String, ApiError> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(ApiError::no_randomness)?;
    Ok(format!("cce_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What the database keeps of a token.
pub(crate) fn token_hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// Revokes a target's agent for good and closes its link. A target that is not there, or not yours, gets one answer.
pub(crate) async fn revoke(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(target): Path<String>,
) -> Result<StatusCode, ApiError> {
    let tx = api.tenancy.tx(principal.tenant).await?;
    let missing = |error| match error {
        TenancyError::NotFound => CallError::TargetNotFound.into(),
        other => ApiError::from(other),
    };
    let found = target_get(&tx, TargetRef::from(target.as_str())).await.map_err(missing)?;
    if !principal.grants.cover_target(found.target_id) {
        return Err(CallError::TargetNotFound.into());
    }
    if found.kind != AdapterKind::Ssh {
        let message = "this target is an adapter, not a host: remove it with DELETE /api/mcp/adapter/{id}";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    target_revoke(&tx, found.target_id, &principal.id.to_string()).await.map_err(missing)?;
    tx.commit().await?;
    api.audit.outbox_changed();
    api.hub.revoke(principal.tenant, found.target_id);
    Ok(StatusCode::NO_CONTENT)
}
