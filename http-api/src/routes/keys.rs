//! API keys: list, create (shown once), revoke.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use identity::pg::{KeyRecord, NewKey, key_create, key_list, key_revoke};
use identity::{ApiKey, Role};
use mcp_core::error::{CallError, ErrorCode};
use mcp_core::id::{KeyId, TargetId};
use mcp_core::tool::ToolName;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenancy::TenancyError;
use time::OffsetDateTime;

use super::rfc3339;
use crate::api::Api;
use crate::cursor::{PageQuery, cut_page};
use crate::error::ApiError;
use crate::gate::Caller;
use crate::idempotency::Idempotency;
use crate::json::{Answer, StrictJson, StrictQuery};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyPage {
    keys: Vec<KeyView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyView {
    id: KeyId,
    name: String,
    role: Role,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

impl From<KeyRecord> for KeyView {
    fn from(key: KeyRecord) -> Self {
        Self {
            id: key.key_id,
            name: key.name,
            role: key.role,
            created_at: rfc3339(key.created_at),
            expires_at: key.expires_at.map(rfc3339),
            revoked_at: key.revoked_at.map(rfc3339),
        }
    }
}

/// The tenant's keys, oldest first; never the keys themselves.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(page): StrictQuery<PageQuery>,
) -> Result<Answer<KeyPage>, ApiError> {
    let limit = page.limit()?;
    let cursors = &api.settings.cursor_key;
    let after = match &page.cursor {
        Some(cursor) => {
            let (nanos, key): (i128, KeyId) = cursors.open(principal.tenant, "keys", cursor)?;
            let at = OffsetDateTime::from_unix_timestamp_nanos(nanos);
            Some((at.map_err(|_| ApiError::invalid("cursor", "the cursor is damaged"))?, key))
        }
        None => None,
    };
    let tx = api.tenancy.tx(principal.tenant).await?;
    let mut keys = key_list(&tx, after, limit + 1).await?;
    tx.commit().await?;
    let has_more = cut_page(&mut keys, limit);
    let last = keys.last().filter(|_| has_more);
    let position = last.map(|last| (last.created_at.unix_timestamp_nanos(), last.key_id));
    let next_cursor = position.map(|position| cursors.seal(principal.tenant, "keys", &position));
    let keys = keys.into_iter().map(KeyView::from).collect();
    Ok(Answer(StatusCode::OK, KeyPage { keys, next_cursor }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateBody {
    name: String,
    role: Role,
    #[serde(default, with = "time::serde::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
    #[serde(default)]
    tools: Option<BTreeSet<String>>,
    #[serde(default)]
    targets: Option<BTreeSet<TargetId>>,
}

/// Makes a key, and shows it this once. Nobody makes a key that can do more than they can.
pub(crate) async fn create(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: StrictJson<CreateBody>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, &principal, "keys.create", &body.bytes)?;
    let CreateBody { name, role, expires_at, tools, targets } = body.value;
    if principal.role.parse::<Role>().map_or(true, |own| role > own) {
        return Err(CallError::Forbidden.into());
    }
    if expires_at.is_some_and(|at| at <= OffsetDateTime::now_utc()) {
        return Err(ApiError::invalid("expiresAt", "expiresAt must lie in the future"));
    }
    let tools = tools.map(parse_tools).transpose()?;
    // A narrowed key hands on nothing that it does not have itself.
    let widens_tools = ToolName::ALL.iter().any(|tool| {
        !principal.grants.cover_tool(*tool) && tools.as_ref().is_none_or(|tools| tools.contains(tool))
    });
    let widens_targets = match &targets {
        None => principal.grants.is_narrowed_to_targets(),
        Some(targets) => targets.iter().any(|target| !principal.grants.cover_target(*target)),
    };
    if widens_tools || widens_targets {
        return Err(CallError::Forbidden.into());
    }
    let tx = api.tenancy.tx(principal.tenant).await?;
    if let Some(replay) = idempotency.replay(&tx).await? {
        return Ok(replay);
    }
    let key = ApiKey::generate().map_err(ApiError::no_randomness)?;
    let new = NewKey { name: &name, role, expires_at, tools, targets };
    let record = key_create(&tx, &key, &new, Some(principal.id)).await.map_err(|error| match error {
        TenancyError::Invalid(_) => ApiError::invalid("name", "a name has 1 to 200 characters and no NUL"),
        TenancyError::Conflict { .. } => {
            ApiError::new(ErrorCode::Conflict, "a live key, or a person, has that name; choose another one")
        }
        other => other.into(),
    })?;
    let kept = json!({ "id": record.key_id, "key": null });
    idempotency.keep(&tx, StatusCode::CREATED, kept).await?;
    tx.commit().await?;
    api.audit.outbox_changed();
    let answer = json!({ "id": record.key_id, "key": key.reveal() });
    Ok(Answer(StatusCode::CREATED, answer).into_response())
}

fn parse_tools(names: BTreeSet<String>) -> Result<BTreeSet<ToolName>, ApiError> {
    let unknown = || ApiError::invalid("tools", "tools must hold names of tools, such as github.list_repos");
    names.iter().map(|name| ToolName::parse(name).ok_or_else(unknown)).collect()
}

/// Revokes a key. It stops working at once on this server.
pub(crate) async fn revoke(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(key): Path<String>,
) -> Result<StatusCode, ApiError> {
    let missing = || ApiError::not_found("key");
    let key: KeyId = key.parse().map_err(|_| missing())?;
    let tx = api.tenancy.tx(principal.tenant).await?;
    key_revoke(&tx, key, Some(principal.id)).await.map_err(|error| match error {
        TenancyError::NotFound => missing(),
        other => other.into(),
    })?;
    tx.commit().await?;
    api.audit.outbox_changed();
    api.authenticator.forget(key);
    Ok(StatusCode::NO_CONTENT)
}
