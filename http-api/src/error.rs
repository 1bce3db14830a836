//! The one place where a refusal becomes an HTTP answer (SPEC §4). No other file of this program names a status for an
//! error, and the match has no wildcard: a new code does not compile until it has a status.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use mcp_core::audit::AuditError;
use mcp_core::error::{CallError, ErrorCode};
use serde_json::{Map, Value, json};
use tenancy::TenancyError;

use crate::request_id::CurrentRequestId;

/// A refusal on its way out. The body is written by [`render`], which knows the request's id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    code: ErrorCode,
    /// The code's own status, unless the same code means something else here.
    status: StatusCode,
    message: String,
    details: Map<String, Value>,
}

pub(crate) const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidArguments | ErrorCode::InvalidRequest => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden
        | ErrorCode::ToolNotInRegistry
        | ErrorCode::WriteRejected
        | ErrorCode::ToolDisabled
        | ErrorCode::CommandNotWhitelisted
        | ErrorCode::InsufficientScope
        | ErrorCode::OriginRefused => StatusCode::FORBIDDEN,
        ErrorCode::TargetNotFound | ErrorCode::TargetOffline | ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::AmbiguousTarget | ErrorCode::Conflict | ErrorCode::LastAdmin => StatusCode::CONFLICT,
        ErrorCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::ConfigRefused | ErrorCode::PveRoleMissing | ErrorCode::PveOverprivileged => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ErrorCode::HostRefused => StatusCode::MISDIRECTED_REQUEST,
        ErrorCode::RateLimited
        | ErrorCode::UpstreamRateLimited
        | ErrorCode::AgentBusy
        | ErrorCode::InFlightLimit => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::UpstreamAuth
        | ErrorCode::UpstreamError
        | ErrorCode::UpstreamTooLarge
        | ErrorCode::UpstreamMalformed
        | ErrorCode::TlsUntrusted
        | ErrorCode::TlsPinMismatch
        | ErrorCode::EgressDenied
        | ErrorCode::AgentDisconnected => StatusCode::BAD_GATEWAY,
        ErrorCode::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::AuditUnavailable
        | ErrorCode::DatabaseUnavailable
        | ErrorCode::SecretUnavailable
        | ErrorCode::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        // The request was closed by its own client; 499 is what servers log for it.
        ErrorCode::Cancelled => match StatusCode::from_u16(499) {
            Ok(status) => status,
            Err(_) => StatusCode::BAD_REQUEST,
        },
        ErrorCode::ClientTooSlow => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl ApiError {
    /// A refusal with its sentence.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, status: status(code), message: message.into(), details: Map::new() }
    }

    /// A configuration that is refused: 422, whatever the step's own code means during a call.
    pub(crate) fn unprocessable(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, ..Self::new(code, message) }
    }

    /// Adds a field that belongs to this refusal.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.details.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn unauthenticated() -> Self {
        Self::new(
            ErrorCode::Unauthenticated,
            "a valid API key is needed; send it as: Authorization: Bearer cck_…",
        )
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no such {what}"))
    }

    pub(crate) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message).with("field", json!(field))
    }

    /// A defect of ours: the caller gets a constant text, the log the cause.
    pub(crate) fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(cause), "a request met an internal error");
        CallError::Internal.into()
    }

    /// The system has no randomness to offer, so nothing secret can be made.
    pub(crate) fn no_randomness(_: ring::error::Unspecified) -> Self {
        tracing::error!("the system's random generator failed");
        CallError::Internal.into()
    }
}

/// An error and its causes on one line. Each `Display` says its own layer's fact only.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        Self { details: error.details(), ..Self::new(error.code(), error.message()) }
    }
}

impl From<AuditError> for ApiError {
    fn from(error: AuditError) -> Self {
        tracing::error!(%error, "an audit event was not written");
        CallError::AuditUnavailable.into()
    }
}

impl From<TenancyError> for ApiError {
    fn from(error: TenancyError) -> Self {
        match &error {
            TenancyError::DatabaseUnavailable(_) => {
                tracing::error!(error = %chain(&error), "the database is not available");
                CallError::DatabaseUnavailable.into()
            }
            TenancyError::Conflict { constraint } if constraint.as_deref() == Some("last_admin") => {
                Self::new(ErrorCode::LastAdmin, "this is the tenant's last admin key; make another one first")
            }
            TenancyError::Conflict { .. } => {
                Self::new(ErrorCode::Conflict, "something of that name exists already; choose another name")
            }
            TenancyError::Invalid(_) => {
                Self::new(ErrorCode::InvalidRequest, "a value is malformed, too long or out of range")
            }
            TenancyError::NotFound => Self::not_found("thing"),
            // `Denied` and `Internal` are ours to mend; so is a variant that a later version adds.
            other => Self::internal(other),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        if self.code == ErrorCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"coreci\""));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl ApiError {
    /// Seconds after which it is worth asking again, for the codes that say so.
    fn retry_after(&self) -> Option<u64> {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => {
                Some(self.details.get("retryAfterSec").and_then(Value::as_u64).unwrap_or(1).max(1))
            }
            StatusCode::SERVICE_UNAVAILABLE => Some(1),
            _ => None,
        }
    }
}

/// Writes the body of a refusal; other answers pass.
pub(crate) fn render(response: Response, request: CurrentRequestId) -> Response {
    let Some(error) = response.extensions().get::<ApiError>().cloned() else { return response };
    let mut body = Map::new();
    body.insert("error".to_owned(), json!(error.code.as_str()));
    body.insert("message".to_owned(), json!(error.message));
    body.insert("requestId".to_owned(), json!(request.0));
    body.extend(error.details);
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, axum::body::Body::from(Value::Object(body).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: RT-15
    #[test]
    fn the_status_of_every_code_is_as_committed() {
        let lines: Vec<_> = ErrorCode::ALL
            .iter()
            .map(|code| format!("{} {}", status(*code).as_u16(), code.as_str()))
            .collect();
        insta::assert_snapshot!("statuses", lines.join("\n"));
    }

    #[test]
    fn a_cause_is_said_once_per_layer() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("inner"));
        assert_eq!(chain(&error), "outer: inner");
    }
}
