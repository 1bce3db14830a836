//! Adapters: configure, show, change, check, remove. A credential goes in and never comes out.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use mcp_core::adapter_config::{AdapterConfig, TlsSetting};
use mcp_core::check::{CheckReport, CheckStep};
use mcp_core::id::TargetId;
use mcp_core::secret::SecretValue;
use mcp_core::tool::AdapterKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tenancy::stores::adapter::{Adapter, adapter_list};
use tenancy::stores::target::TargetCursor;

use super::rfc3339;
use crate::adapters::{Change, Configured, Wanted};
use crate::api::Api;
use crate::cursor::{PageQuery, cut_page};
use crate::error::ApiError;
use crate::gate::Caller;
use crate::idempotency::Idempotency;
use crate::json::{Answer, StrictJson, StrictQuery};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdapterPage {
    adapters: Vec<AdapterView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdapterView {
    id: TargetId,
    name: String,
    #[serde(rename = "type")]
    kind: AdapterKind,
    status: &'static str,
    base_url: Value,
    tls: Value,
    options: Value,
    /// There is one; what it is nobody is told.
    credential: CredentialView,
    facts: Value,
    checked_at: Option<String>,
    created_at: String,
}

#[derive(Serialize)]
struct CredentialView {
    set: bool,
}

impl From<Adapter> for AdapterView {
    fn from(adapter: Adapter) -> Self {
        let mut config = adapter.config;
        Self {
            id: adapter.target_id,
            name: adapter.name,
            kind: adapter.kind,
            status: adapter.validated.as_str(),
            base_url: config["base_url"].take(),
            tls: config["tls"].take(),
            options: config["options"].take(),
            credential: CredentialView { set: true },
            facts: adapter.facts,
            checked_at: adapter.checked_at.map(rfc3339),
            created_at: rfc3339(adapter.created_at),
        }
    }
}

/// Adapters within the key's narrowing, by name.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(page): StrictQuery<PageQuery>,
) -> Result<Answer<AdapterPage>, ApiError> {
    let limit = page.limit()?;
    let key = &api.settings.cursor_key;
    let after = match &page.cursor {
        Some(cursor) => {
            let (name, target_id) = key.open(principal.tenant, "adapters", cursor)?;
            Some(TargetCursor { name, target_id })
        }
        None => None,
    };
    let tx = api.tenancy.tx(principal.tenant).await?;
    let mut adapters = adapter_list(&tx, after.as_ref(), limit + 1).await?;
    tx.commit().await?;
    let has_more = cut_page(&mut adapters, limit);
    let last = adapters.last().filter(|_| has_more);
    let next_cursor = last.map(|last| key.seal(principal.tenant, "adapters", &(&last.name, last.target_id)));
    let covered = adapters.into_iter().filter(|adapter| principal.grants.cover_target(adapter.target_id));
    Ok(Answer(
        StatusCode::OK,
        AdapterPage { adapters: covered.map(AdapterView::from).collect(), next_cursor },
    ))
}

/// One adapter.
pub(crate) async fn show(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(adapter): Path<String>,
) -> Result<Answer<AdapterView>, ApiError> {
    let adapter = api.adapters.get(&principal, id(&adapter)?).await?;
    Ok(Answer(StatusCode::OK, adapter.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBody {
    #[serde(rename = "type")]
    kind: AdapterKind,
    name: String,
    #[serde(default)]
    base_url: Option<String>,
    credential: String,
    #[serde(default)]
    tls: TlsSetting,
    #[serde(default)]
    options: Map<String, Value>,
    #[serde(default)]
    save_unverified: bool,
}

/// Configures an adapter, once its check has passed.
pub(crate) async fn create(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: StrictJson<CreateBody>,
) -> Result<Response, ApiError> {
    let idempotency = Idempotency::of(&headers, &principal, "adapters.create", &body.bytes)?;
    let tx = api.tenancy.tx(principal.tenant).await?;
    if let Some(replay) = idempotency.replay(&tx).await? {
        return Ok(replay);
    }
    tx.commit().await?;
    // Checking dials out, so it costs what a call costs (B-12).
    api.broker.take_token(&principal).await?;
    let CreateBody { kind, name, base_url, credential, tls, options, save_unverified } = body.value;
    let wanted = Wanted {
        name,
        config: AdapterConfig { kind, base_url, tls, options },
        credential: SecretValue::new(credential),
        save_unverified,
    };
    let configured = api.adapters.create(&principal, wanted).await?;
    let answer = configured_view(&configured);
    let tx = api.tenancy.tx(principal.tenant).await?;
    idempotency.keep(&tx, StatusCode::CREATED, answer.clone()).await?;
    tx.commit().await?;
    Ok(Answer(StatusCode::CREATED, answer).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    #[serde(default)]
    base_url: Option<String>,
    #[serde(default)]
    credential: Option<String>,
    #[serde(default)]
    tls: Option<TlsSetting>,
    #[serde(default)]
    options: Option<Map<String, Value>>,
    #[serde(default)]
    save_unverified: bool,
}

/// Changes an adapter, once the check of what it would become has passed.
pub(crate) async fn change(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(adapter): Path<String>,
    body: StrictJson<ChangeBody>,
) -> Result<Answer<Value>, ApiError> {
    let target = id(&adapter)?;
    api.broker.take_token(&principal).await?;
    let before = api.adapters.get(&principal, target).await?;
    let mut config: AdapterConfig =
        serde_json::from_value(before.config.clone()).map_err(|error| ApiError::internal(&error))?;
    let ChangeBody { base_url, credential, tls, options, save_unverified } = body.value;
    config.base_url = base_url.or(config.base_url);
    config.tls = tls.unwrap_or(config.tls);
    config.options = options.unwrap_or(config.options);
    let change = Change { config, credential: credential.map(SecretValue::new), save_unverified };
    let configured = api.adapters.change(&principal, before, change).await?;
    Ok(Answer(StatusCode::OK, configured_view(&configured)))
}

#[derive(Serialize)]
pub(crate) struct TestView {
    ok: bool,
    steps: Vec<CheckStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

/// Checks an adapter now. A failed check is an answer, not an error.
pub(crate) async fn test(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(adapter): Path<String>,
) -> Result<Answer<TestView>, ApiError> {
    let target = id(&adapter)?;
    api.broker.take_token(&principal).await?;
    let report = api.adapters.test(&principal, target).await?;
    let ok = report.passed();
    let CheckReport { steps, fingerprint, .. } = report;
    Ok(Answer(StatusCode::OK, TestView { ok, steps, fingerprint }))
}

/// Removes an adapter, its target and its credential.
pub(crate) async fn remove(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(adapter): Path<String>,
) -> Result<StatusCode, ApiError> {
    let target = id(&adapter)?;
    api.adapters.get(&principal, target).await?;
    api.adapters.remove(&principal, target).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn configured_view(configured: &Configured) -> Value {
    json!({
        "id": configured.adapter.target_id,
        "name": configured.adapter.name,
        "status": configured.adapter.validated.as_str(),
        "steps": configured.report.steps,
    })
}

/// What is no id is the id of nothing.
fn id(text: &str) -> Result<TargetId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found("adapter"))
}
