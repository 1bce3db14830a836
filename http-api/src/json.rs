//! Bodies and queries, strictly: JSON only, 1 MiB at most, no duplicate key, no unknown field.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mcp_core::error::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// Most bytes of a body.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Time for a body to arrive whole.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A body of the wanted shape, and its bytes for whoever needs to recognise it again.
pub(crate) struct StrictJson<T> {
    pub(crate) value: T,
    pub(crate) bytes: axum::body::Bytes,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for StrictJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read_json_body(&parts.headers, body).await?;
        let value = mcp_core::json::parse_as(&bytes).map_err(|error| {
            ApiError::new(ErrorCode::InvalidRequest, format!("the body is refused: {error}"))
        })?;
        Ok(Self { value, bytes })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The bytes of a body that says it is JSON, within the limits of size and time.
pub(crate) async fn read_json_body(headers: &HeaderMap, body: Body) -> Result<axum::body::Bytes, ApiError> {
    if !is_json(headers) {
        let message = "send the body as JSON, with Content-Type: application/json";
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
    }
    let too_large = || ApiError::new(ErrorCode::BodyTooLarge, "the body is larger than 1 MiB");
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    // A body that says it is too large is refused before a byte of it is read.
    if declared.and_then(|text| text.parse::<u64>().ok()).is_some_and(|length| length > MAX_BODY_BYTES as u64)
    {
        return Err(too_large());
    }
    let body = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(ErrorCode::InvalidRequest, "the body did not arrive whole")),
        Err(_) => Err(ApiError::new(ErrorCode::BodyTimeout, "the body did not arrive within 30 s")),
    }
}

/// A query of the wanted shape.
pub(crate) struct StrictQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|rejection| {
            ApiError::new(
                ErrorCode::InvalidRequest,
                format!("the query is refused: {}", rejection.body_text()),
            )
        })
    }
}

/// An answer in JSON.
pub(crate) struct Answer<T>(pub(crate) StatusCode, pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.1) {
            Ok(text) => {
                let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (self.0, [json], text).into_response()
            }
            Err(error) => ApiError::internal(&error).into_response(),
        }
    }
}
