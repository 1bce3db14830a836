//! `GET /api/mcp/tools`, and what a tenant switches off.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mcp_core::mcp::Tool;
use mcp_core::openai::function_definition;
use mcp_core::tool::ToolName;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenancy::stores::tool_policy::{tool_policy_get, tool_policy_set};

use crate::api::Api;
use crate::error::ApiError;
use crate::gate::Caller;
use crate::json::{Answer, StrictJson, StrictQuery};

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

/// How the list is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// As MCP shows tools, under canonical names.
    #[default]
    Mcp,
    /// As the `tools` of a chat request, under wire names.
    Openai,
}

/// The tools that the caller's key and tenant leave, in the registry's order. There is one page.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Response, ApiError> {
    let tools = api.broker.tools(&principal).await?.into_iter();
    Ok(match query.format {
        Format::Mcp => {
            let tools = tools.map(|tool| ListedTool { tool: Tool::canonical(tool), enabled: true }).collect();
            Answer(StatusCode::OK, ToolList { tools }).into_response()
        }
        Format::Openai => {
            let tools: Vec<_> = tools.map(function_definition).collect();
            Answer(StatusCode::OK, json!({ "tools": tools })).into_response()
        }
    })
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
