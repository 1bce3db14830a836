//! `POST /mcp`: Streamable HTTP. Everything about the protocol lies in `mcp_broker::transport`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::api::Api;
use crate::error::ApiError;
use crate::gate::Caller;
use crate::json::read_json_body;

/// Answers one message. A client that hangs up has its call cancelled.
pub(crate) async fn post(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = read_json_body(&parts.headers, body).await?;
    let answer = api.mcp.answer(http::Request::from_parts(parts, bytes), principal).await;
    Ok(answer.map(Body::new))
}
