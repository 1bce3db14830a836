//! `GET /api/mcp/tools`, and what a tenant switches off.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use mcp_core::mcp::Tool;
use mcp_core::tool::ToolName;
use serde::{Deserialize, Serialize};
use tenancy::stores::tool_policy::{tool_policy_get, tool_policy_set};

use crate::api::Api;
use crate::error::ApiError;
use crate::gate::Caller;
use crate::json::{Answer, StrictJson};

#[derive(Serialize)]
pub(crate) struct ToolList {
    tools: Vec<ListedTool>,
}

#[derive(Serialize)]
struct ListedTool {
    #[serde(flatten)]
    tool: Tool,
    enabled: bool,
}

/// The tools that the caller's key and tenant leave, in the registry's order. There is one page.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
) -> Result<Answer<ToolList>, ApiError> {
    let tools = api.broker.tools(&principal).await?;
    let tools = tools.into_iter().map(|tool| ListedTool { tool: Tool::canonical(tool), enabled: true });
    Ok(Answer(StatusCode::OK, ToolList { tools: tools.collect() }))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    disabled: BTreeSet<String>,
}

/// What the tenant has switched off.
pub(crate) async fn policy(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
) -> Result<Answer<Policy>, ApiError> {
    let tx = api.tenancy.tx(principal.tenant).await?;
    let disabled = tool_policy_get(&tx).await?;
    tx.commit().await?;
    Ok(Answer(StatusCode::OK, Policy { disabled }))
}

/// Replaces the list of tools that are switched off. A tenant can take tools away, never add one.
pub(crate) async fn set_policy(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    body: StrictJson<Policy>,
) -> Result<Answer<Policy>, ApiError> {
    let canonical = |name: &String| {
        let unknown =
            || ApiError::invalid("disabled", "disabled must hold names of tools, such as github.list_repos");
        ToolName::parse(name).map(|tool| tool.as_str().to_owned()).ok_or_else(unknown)
    };
    let disabled = body.value.disabled.iter().map(canonical).collect::<Result<BTreeSet<_>, _>>()?;
    let tx = api.tenancy.tx(principal.tenant).await?;
    tool_policy_set(&tx, &disabled, &principal.id.to_string()).await?;
    tx.commit().await?;
    api.audit.outbox_changed();
    Ok(Answer(StatusCode::OK, Policy { disabled }))
}
