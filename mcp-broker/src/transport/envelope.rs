//! What a message must be before rmcp sees it, where rmcp answers otherwise than the specification: bodies that are no
//! JSON, batches, duplicate keys, ids that would not come back as they were, revisions that are not ours, and headers
//! that contradict the body.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_core::json::{self, JsonError};
use mcp_core::jsonrpc::{Id, Response, RpcError, code};
use mcp_core::mcp::CallToolParams;
use serde_json::{Map, Value};

use super::handler::REVISIONS;

const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// MCP's own code for headers that differ from the body (2026-07-28).
const HEADER_MISMATCH: i64 = -32_020;
/// How the value of a header begins that is not plain text. rmcp decodes it.
const ENCODED: &[u8] = b"=?base64?";

/// A message that is turned away, with the answer it gets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) answer: Response,
    /// The tool of a message whose headers contradict its body, for the audit log.
    pub(super) mismatched_tool: Option<String>,
}

impl Refusal {
    fn bad_request(id: Option<Id>, code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, id, code, message)
    }

    fn new(status: StatusCode, id: Option<Id>, code: i64, message: impl Into<String>) -> Self {
        let error = RpcError { code, message: message.into(), data: None };
        Self { status, answer: Response::error(id, error), mismatched_tool: None }
    }

    /// What stands for a refusal of rmcp that is no JSON-RPC: the message is of no kind that it knows.
    pub(super) fn of_rmcp(status: StatusCode, id: Option<Id>) -> Self {
        if status.is_server_error() {
            Self::new(status, id, code::INTERNAL_ERROR, "the message was not answered")
        } else {
            Self::bad_request(id, code::INVALID_REQUEST, "this is not a message of MCP")
        }
    }
}

/// A message that may go on.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A `tools/call` in its plain form, of a revision whose calls have no other: all that is to be known of it.
    Call(Id, CallToolParams),
    /// Anything else, for rmcp to read; a request with its id.
    Other(Option<Id>),
}

/// Looks at a message's headers and body.
///
/// # Errors
/// The [`Refusal`].
pub(super) fn check(headers: &HeaderMap, body: &[u8]) -> Result<Message, Refusal> {
    check_accept(headers)?;
    let mut message = match json::parse(body) {
        Ok(Value::Object(message)) => message,
        Ok(Value::Array(_)) => {
            let message = "batches are not taken; send one message per request";
            return Err(Refusal::bad_request(None, code::INVALID_REQUEST, message));
        }
        Ok(_) => {
            let message = "a message is a JSON object";
            return Err(Refusal::bad_request(None, code::INVALID_REQUEST, message));
        }
        Err(JsonError::Syntax(reason) | JsonError::Shape(reason)) => {
            let message = format!("the body is not JSON: {reason}");
            return Err(Refusal::bad_request(None, code::PARSE_ERROR, message));
        }
    };
    let id = check_envelope(&message)?;
    check_params(&message, id.as_ref())?;
    check_revision(headers, &message, id.as_ref())?;
    check_headers_agree(headers, &message, id.as_ref())?;
    match id {
        Some(id) if is_plain_call(headers, &message) => Ok(match take_call(&mut message) {
            Some(call) => Message::Call(id, call),
            None => Message::Other(Some(id)),
        }),
        id => Ok(Message::Other(id)),
    }
}

/// Whether nothing but name and arguments matters: a call under a handshake, without an extension of its parameters.
fn is_plain_call(headers: &HeaderMap, message: &Map<String, Value>) -> bool {
    let has_handshake = headers.get(PROTOCOL_VERSION).is_none_or(|named| {
        REVISIONS.iter().any(|known| known.has_initialize() && named.as_bytes() == known.as_str().as_bytes())
    });
    let is_encoded = |name| headers.get_all(name).iter().any(|value| value.as_bytes().starts_with(ENCODED));
    let params = message.get("params").and_then(Value::as_object);
    has_handshake
        && !is_encoded(METHOD)
        && !is_encoded(NAME)
        && message.get("method").and_then(Value::as_str) == Some("tools/call")
        && params.is_some_and(|params| {
            params.iter().all(|(key, value)| match key.as_str() {
                "name" => value.is_string(),
                "arguments" => value.is_object(),
                "_meta" => value.get(VERSION_KEY).is_none(),
                _ => false,
            })
        })
}

fn take_call(message: &mut Map<String, Value>) -> Option<CallToolParams> {
    let params = message.get_mut("params")?.as_object_mut()?;
    let Some(Value::String(name)) = params.remove("name") else { return None };
    let arguments = match params.remove("arguments") {
        Some(Value::Object(arguments)) => arguments,
        _ => Map::new(),
    };
    Some(CallToolParams { name, arguments })
}

/// The one thing we ever answer with is JSON, so that is all a client must take.
fn check_accept(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .peekable();
    let takes_json = |range: &str| {
        ["application/json", "application/*", "*/*"].iter().any(|r| range.eq_ignore_ascii_case(r))
    };
    if ranges.peek().is_none() || ranges.any(takes_json) {
        return Ok(());
    }
    let message = "answers are JSON: send Accept: application/json, text/event-stream";
    let refusal = Refusal::bad_request(None, code::INVALID_REQUEST, message);
    Err(Refusal { status: StatusCode::NOT_ACCEPTABLE, ..refusal })
}

/// What rmcp wants to see in `Accept`, whatever the client wrote there.
pub(super) const ACCEPT_ALL: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Reads the id of a request; a notification or a response has none.
fn check_envelope(message: &Map<String, Value>) -> Result<Option<Id>, Refusal> {
    let invalid = |id, message: &str| Err(Refusal::bad_request(id, code::INVALID_REQUEST, message));
    let id = match message.get("id") {
        None => None,
        Some(Value::String(text)) => Some(Id::Text(text.clone())),
        // As text or as a whole number it comes back byte for byte; anything else would not.
        Some(Value::Number(number)) if number.is_i64() => number.as_i64().map(Id::Number),
        Some(_) => return invalid(None, "an id is a text or a whole number of 64 bits"),
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(id, "jsonrpc must be \"2.0\"");
    }
    match message.get("method") {
        Some(Value::String(_)) => Ok(id),
        Some(_) => invalid(id, "a method is a text"),
        None if message.contains_key("result") || message.contains_key("error") => Ok(None),
        None => invalid(id, "a message has a method"),
    }
}

/// Parameters are an object, and so is what stands in `_meta`. Lists have one page, so no cursor leads anywhere.
fn check_params(message: &Map<String, Value>, id: Option<&Id>) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::bad_request(id.cloned(), code::INVALID_PARAMS, message));
    let params = match message.get("params") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(params)) => params,
        Some(_) => return refuse("params must be an object"),
    };
    if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
        return refuse("_meta must be an object");
    }
    if message.get("method").and_then(Value::as_str) == Some("tools/list")
        && params.get("cursor").is_some_and(|cursor| !cursor.is_null())
    {
        return refuse("there is no such cursor: the list has one page");
    }
    Ok(())
}

/// A message that carries its own revision is rmcp's to negotiate, and so is `initialize`. For all others the header
/// decides, and one that is absent means a client from before there was one.
fn check_revision(headers: &HeaderMap, message: &Map<String, Value>, id: Option<&Id>) -> Result<(), Refusal> {
    let Some(named) = headers.get(PROTOCOL_VERSION) else { return Ok(()) };
    let meta = message.get("params").and_then(|params| params.get("_meta"));
    let carries_its_own = meta.is_some_and(|meta| meta.get(VERSION_KEY).is_some());
    if carries_its_own || message.get("method").and_then(Value::as_str) == Some("initialize") {
        return Ok(());
    }
    if named.to_str().is_ok_and(|named| REVISIONS.iter().any(|revision| revision.as_str() == named)) {
        return Ok(());
    }
    let ours: Vec<&str> = REVISIONS.iter().map(|revision| revision.as_str()).collect();
    let message = format!("MCP-Protocol-Version must be one of {}", ours.join(", "));
    Err(Refusal::bad_request(id.cloned(), code::INVALID_REQUEST, message))
}

/// A proxy may have decided by these headers, so they must not say anything else than the body (CASES C-Q19). rmcp refuses
/// a missing one where the revision asks for it.
fn check_headers_agree(
    headers: &HeaderMap,
    message: &Map<String, Value>,
    id: Option<&Id>,
) -> Result<(), Refusal> {
    let method = message.get("method").and_then(Value::as_str);
    let tool = message.get("params").and_then(|params| params.get("name")).and_then(Value::as_str);
    let agrees = |name: &str, in_body: Option<&str>| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => true,
            // A name that is not plain text comes encoded; rmcp decodes and compares it.
            (Some(value), None) if value.as_bytes().starts_with(ENCODED) => true,
            (Some(value), None) => value.to_str().is_ok_and(|value| Some(value.trim()) == in_body),
            (Some(_), Some(_)) => false,
        }
    };
    let wrong = if !agrees(METHOD, method) {
        "Mcp-Method"
    } else if !agrees(NAME, tool) && method == Some("tools/call") {
        "Mcp-Name"
    } else {
        return Ok(());
    };
    let message = format!("the header {wrong} and the body say different things");
    let refusal = Refusal::bad_request(id.cloned(), HEADER_MISMATCH, message);
    Err(Refusal { mismatched_tool: Some(tool.unwrap_or_default().to_owned()), ..refusal })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    fn code_of(headers: &HeaderMap, body: &str) -> Option<(u16, i64)> {
        let refusal = check(headers, body.as_bytes()).err()?;
        let answer = serde_json::to_value(&refusal.answer).expect("json");
        Some((refusal.status.as_u16(), answer["error"]["code"].as_i64().expect("a code")))
    }

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    // proves: M-03
    #[test]
    fn what_is_no_message_gets_the_code_of_its_fault() {
        let none = HeaderMap::new();
        assert_eq!(code_of(&none, PING), None);
        assert_eq!(code_of(&none, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), None);
        for text in ["", "{", "nonsense", "{} {}", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#] {
            assert_eq!(code_of(&none, text), Some((400, -32_700)), "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(code_of(&none, &deep), Some((400, -32_700)));
        for text in [
            "[]",
            "3",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#,
        ] {
            assert_eq!(code_of(&none, text), Some((400, -32_600)), "{text}");
        }
    }

    #[test]
    fn parameters_of_the_wrong_form_are_named() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":3}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}"#,
        ] {
            assert_eq!(code_of(&HeaderMap::new(), text), Some((400, -32_602)), "{text}");
        }
        let null = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#;
        assert_eq!(code_of(&HeaderMap::new(), null), None);
    }

    // proves: C-Q18
    #[test]
    fn a_revision_that_is_not_ours_is_refused_and_a_missing_one_is_not() {
        for revision in ["2025-06-18", "2025-11-25", "2026-07-28"] {
            assert_eq!(code_of(&headers(&[(PROTOCOL_VERSION, revision)]), PING), None);
        }
        for revision in ["2024-11-05", "2099-01-01", "nonsense", ""] {
            let refused = code_of(&headers(&[(PROTOCOL_VERSION, revision)]), PING);
            assert_eq!(refused, Some((400, -32_600)), "{revision}");
        }
        let init =
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#;
        assert_eq!(code_of(&headers(&[(PROTOCOL_VERSION, "2024-11-05")]), init), None);
    }

    // proves: C-Q19
    #[test]
    fn headers_that_contradict_the_body_are_refused_with_the_tool_that_was_meant() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"github__list_repos"}}"#;
        let agreeing = headers(&[(METHOD, "tools/call"), (NAME, "github__list_repos")]);
        assert_eq!(code_of(&agreeing, call), None);
        for pairs in [
            &[(METHOD, "tools/list")][..],
            &[(METHOD, "tools/call"), (NAME, "gitea__list_repos")],
            &[(METHOD, "tools/call"), (METHOD, "tools/call")],
            &[(NAME, "github.list_repos")],
        ] {
            let headers = headers(pairs);
            assert_eq!(code_of(&headers, call), Some((400, HEADER_MISMATCH)), "{pairs:?}");
            let refusal = check(&headers, call.as_bytes()).expect_err("refused");
            assert_eq!(refusal.mismatched_tool.as_deref(), Some("github__list_repos"));
        }
    }

    #[test]
    fn a_plain_call_is_recognised_and_anything_more_is_left_to_rmcp() {
        let is_call = |pairs: &[(&'static str, &str)], params: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            matches!(check(&headers(pairs), body.as_bytes()), Ok(Message::Call(..)))
        };
        let plain = r#"{"name":"a","arguments":{"b":1},"_meta":{"progressToken":7}}"#;
        for revision in ["2025-06-18", "2025-11-25"] {
            assert!(is_call(&[(PROTOCOL_VERSION, revision)], plain));
        }
        assert!(is_call(&[], plain) && is_call(&[], r#"{"name":"a"}"#));
        assert!(is_call(&[(METHOD, "tools/call"), (NAME, "a")], plain));

        assert!(!is_call(&[(PROTOCOL_VERSION, "2026-07-28")], plain));
        assert!(!is_call(&[(NAME, "=?base64?YQ==?=")], plain));
        for more in [
            r#"{"name":"a","task":{}}"#,
            r#"{"name":"a","arguments":null}"#,
            r#"{"name":7}"#,
            r#"{"arguments":{}}"#,
            r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
        ] {
            assert!(!is_call(&[], more), "{more}");
        }
        let notification = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#;
        assert_eq!(check(&HeaderMap::new(), notification), Ok(Message::Other(None)));
    }

    // proves: X2-01
    #[test]
    fn a_client_that_takes_json_is_served_and_one_that_does_not_is_told() {
        for accept in
            ["application/json", "*/*", "text/event-stream, application/*;q=0.5", "Application/JSON"]
        {
            assert_eq!(code_of(&headers(&[("accept", accept)]), PING), None, "{accept}");
        }
        for accept in ["text/html", "text/event-stream", "application/xml, text/plain"] {
            assert_eq!(code_of(&headers(&[("accept", accept)]), PING), Some((406, -32_600)), "{accept}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(&HeaderMap::new(), &bytes);
        }

        #[test]
        fn a_refusal_of_a_readable_message_echoes_its_id(id in any::<i64>()) {
            let body = format!(r#"{{"jsonrpc":"2.1","id":{id},"method":"ping"}}"#);
            let refusal = check(&HeaderMap::new(), body.as_bytes()).expect_err("refused");
            prop_assert_eq!(refusal.answer.id, Some(Id::Number(id)));
        }
    }
}
