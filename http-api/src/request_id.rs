//! The request's id: made by us, echoed in every answer and every refusal.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use mcp_core::id::RequestId;
use tracing::Instrument;
use ulid::Ulid;

use crate::error::render;

const HEADER: &str = "x-request-id";

/// The id of the request being served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentRequestId(pub(crate) RequestId);

/// Names the request, and finishes its answer: header, and body of a refusal. An id that a client sends is not taken
/// over: it would end up in our log.
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let id = CurrentRequestId(RequestId::from_ulid(Ulid::generate()));
    request.extensions_mut().insert(id);
    // The path is the client's text; the matched route is ours and of low cardinality.
    let span = tracing::info_span!("request", request.id = %id.0, http.method = %request.method());
    let response = next.run(request).instrument(span).await;
    let mut response = render(response, id);
    if let Ok(value) = HeaderValue::from_str(&id.0.to_string()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}
