//! `/livez` and `/readyz`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::json::Answer;

/// The process runs.
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether requests can be served, part by part.
pub(crate) async fn readyz(State(api): State<Arc<Api>>) -> Response {
    let checks = api.readiness.checks().await;
    let ready = checks.iter().all(|check| check.ok);
    let parts: Map<String, Value> =
        checks.iter().map(|check| (check.name.to_owned(), Value::from(check.ok))).collect();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Answer(status, json!({ "ready": ready, "checks": parts })).into_response()
}
