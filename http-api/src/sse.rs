//! Server-sent events of one call (SPEC §6).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderValue, header};
use mcp_core::error::ErrorCode;
use mcp_core::id::CorrelationId;
use mcp_core::stream::{CallEvent, CallEventKind, Delivery};
use serde_json::{Map, Value, json};

use crate::error::status;

/// How often a comment keeps proxies from closing a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The answer that carries a call's events until the terminal one.
pub(crate) fn respond(call: CorrelationId, events: BoxStream<'static, Delivery>) -> Response {
    let frames = stream::unfold(Some(events), move |events| next_frame(call, events));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Tells a buffering proxy to pass events on as they come.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

type Frame = Result<Bytes, Infallible>;

async fn next_frame(
    call: CorrelationId,
    events: Option<BoxStream<'static, Delivery>>,
) -> Option<(Frame, Option<BoxStream<'static, Delivery>>)> {
    let mut events = events?;
    let Ok(next) = tokio::time::timeout(KEEP_ALIVE, events.next()).await else {
        return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), Some(events)));
    };
    match next? {
        Delivery::Event(event) => Some((Ok(frame(call, &event)), Some(events))),
        Delivery::TooSlow => Some((Ok(too_slow()), None)),
    }
}

fn frame(call: CorrelationId, event: &CallEvent) -> Bytes {
    let data = match event.kind {
        CallEventKind::ToolResult | CallEventKind::Done => event.data.to_string(),
        CallEventKind::Error => with_status(&event.data),
    };
    Bytes::from(format!("id: {call}-{}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind.as_str()))
}

/// An error on a stream says which status the call would have had. Statuses live in `error.rs`, so it is added here, at
/// the door, and not by whoever published the event.
fn with_status(data: &str) -> String {
    let mut fields: Map<String, Value> = serde_json::from_str(data).unwrap_or_default();
    let code = fields.get("error").and_then(Value::as_str);
    let code = ErrorCode::ALL.iter().copied().find(|known| Some(known.as_str()) == code);
    fields.insert("status".to_owned(), json!(status(code.unwrap_or(ErrorCode::Internal)).as_u16()));
    Value::Object(fields).to_string()
}

fn too_slow() -> Bytes {
    let code = ErrorCode::ClientTooSlow;
    let data = json!({
        "status": status(code).as_u16(), "error": code.as_str(), "isError": true,
        "message": "the stream was closed because its events were not read",
    });
    Bytes::from(format!("event: error\ndata: {data}\n\n"))
}

/// The sequence number of a `Last-Event-ID` of this call; none when it is missing or of another stream.
pub(crate) fn last_event(call: CorrelationId, header: Option<&str>) -> Option<u64> {
    let (id, seq) = header?.rsplit_once('-')?;
    if id.parse() == Ok(call) { seq.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    const CALL: CorrelationId = CorrelationId::from_ulid(Ulid(7));

    // proves: E-01, E-02
    #[test]
    fn a_frame_has_id_event_and_one_line_of_data() {
        let event = CallEvent { seq: 0, kind: CallEventKind::ToolResult, data: r#"{"a":"x\ny"}"#.into() };
        let text = String::from_utf8(frame(CALL, &event).to_vec()).expect("text");
        assert_eq!(text, format!("id: {CALL}-0\nevent: tool_result\ndata: {{\"a\":\"x\\ny\"}}\n\n"));
    }

    #[test]
    fn an_error_carries_the_status_of_its_code() {
        let event =
            CallEvent { seq: 1, kind: CallEventKind::Error, data: r#"{"error":"upstream_timeout"}"#.into() };
        let text = String::from_utf8(frame(CALL, &event).to_vec()).expect("text");
        assert!(text.contains(r#""status":504"#), "{text}");
    }

    #[test]
    fn only_an_id_of_this_stream_counts() {
        assert_eq!(last_event(CALL, Some(&format!("{CALL}-3"))), Some(3));
        let other = CorrelationId::from_ulid(Ulid(8));
        for header in [None, Some(""), Some("3"), Some(format!("{other}-3").as_str()), Some("x-y")] {
            assert_eq!(last_event(CALL, header), None);
        }
    }
}
