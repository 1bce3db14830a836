//! What is refused, in OpenAI's shape. The only file that chooses statuses.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl ApiError {
    /// The body as a whole cannot be used.
    pub(crate) fn body(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param: None, code: None }
    }

    /// One parameter of the body is wrong.
    pub(crate) fn param(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::body(message) }
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn key() -> Self {
        let refused = Self::body("the API key is missing or wrong").code("invalid_api_key");
        Self { status: StatusCode::UNAUTHORIZED, ..refused }
    }

    pub(crate) fn not_found() -> Self {
        let refused = Self::body("there is no such route, or not with this method").code("unknown_url");
        Self { status: StatusCode::NOT_FOUND, ..refused }
    }

    pub(crate) fn too_large() -> Self {
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, ..Self::body("the body is larger than 4 MiB") }
    }

    #[cfg(test)]
    pub(crate) fn named(&self) -> Option<&str> {
        self.param.as_deref()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }});
        (self.status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}
