//! `POST /api/mcp/invoke` starts a call; `GET /api/mcp/stream/{call}` reads its events (SPEC §6).

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_broker::{CallRequest, FinishedCall, StreamMode};
use mcp_core::audit::Receipt;
use mcp_core::id::CorrelationId;
use mcp_core::limit::Allowance;
use mcp_core::mcp::CallToolResult;
use mcp_core::stream::StreamOwner;
use mcp_core::tool::budget;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::Api;
use crate::error::ApiError;
use crate::gate::Caller;
use crate::json::{Answer, StrictJson, StrictQuery};
use crate::sse;

const RECEIPT: &str = "x-audit-receipt";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvokeQuery {
    #[serde(default)]
    wait: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvokeBody {
    tool: String,
    #[serde(default)]
    target_id: Option<String>,
    #[serde(default)]
    args: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    correlation_id: CorrelationId,
    stream_url: String,
}

/// Starts a call. Every refusal up to the committed intent is this request's own status; with `wait=true` so is the
/// outcome. A client that waits and leaves has its call cancelled.
pub(crate) async fn invoke(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(query): StrictQuery<InvokeQuery>,
    body: StrictJson<InvokeBody>,
) -> Result<Response, ApiError> {
    let InvokeBody { tool, target_id, args } = body.value;
    let request = CallRequest { principal, tool, target: target_id, args };
    let mode = if query.wait { StreamMode::None } else { StreamMode::Buffered };
    let running = api.broker.start(request, mode).await?;
    let (allowance, intent) = (running.allowance, running.intent);
    if query.wait {
        let finished = running.wait().await;
        let receipt = finished.receipt;
        return Ok(annotated(waited(finished), allowance, receipt));
    }
    let correlation_id = running.correlation;
    running.detach();
    let started = Started { correlation_id, stream_url: format!("/api/mcp/stream/{correlation_id}") };
    Ok(annotated(Answer(StatusCode::ACCEPTED, started).into_response(), allowance, Some(intent)))
}

fn waited(finished: FinishedCall) -> Response {
    match finished.result {
        Ok(output) => {
            Answer(StatusCode::OK, CallToolResult::fitting(output, budget::REST_BYTES)).into_response()
        }
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Adds the receipt of the newest row about the call, and what the rate limiter left.
fn annotated(mut response: Response, allowance: Allowance, receipt: Option<Receipt>) -> Response {
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from(allowance.limit));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(allowance.remaining));
    if let Some(value) = receipt.and_then(|receipt| HeaderValue::from_str(&receipt.to_string()).ok()) {
        headers.insert(RECEIPT, value);
    }
    response
}

/// Attaches to a call of one's own. An unknown call and somebody else's get the same answer.
pub(crate) async fn stream(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    Path(call): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let unknown = || ApiError::not_found("call");
    let call: CorrelationId = call.parse().map_err(|_| unknown())?;
    let owner = StreamOwner { tenant: principal.tenant, principal: principal.id };
    let after = sse::last_event(call, headers.get("last-event-id").and_then(|value| value.to_str().ok()));
    let events = api.broker.streams().attach(call, owner, after).await.map_err(|_| unknown())?;
    Ok(sse::respond(call, events))
}
