//! `GET /.well-known/oauth-protected-resource[/mcp]`: whose access tokens `/mcp` takes (RFC 9728).

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{Api, ApiSettings};
use crate::error::ApiError;
use crate::json::Answer;

/// Where the metadata of the MCP endpoint lies, as RFC 9728 §3.1 derives it.
pub(crate) fn url(settings: &ApiSettings) -> String {
    format!("{}/.well-known/oauth-protected-resource/mcp", settings.public_url)
}

/// The metadata; not there when no issuer is configured.
pub(crate) async fn show(State(api): State<Arc<Api>>) -> Result<Answer<Value>, ApiError> {
    let issuer = api.settings.token_issuer.as_ref();
    let issuer =
        issuer.ok_or_else(|| ApiError::not_found("document: no issuer of access tokens is configured"))?;
    let metadata = json!({
        "resource": api.settings.mcp_resource(),
        "authorization_servers": [issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "CoreCI",
    });
    Ok(Answer(StatusCode::OK, metadata))
}
