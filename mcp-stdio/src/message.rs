//! What the bridge reads of a message: enough to give it its headers and to find it again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::json::{self, JsonError};
use mcp_core::jsonrpc::{Id, Response, RpcError, code};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// One message of the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// Wants an answer.
    Request { id: Id, method: String, headers: HeaderMap },
    /// Wants none.
    Notification { headers: HeaderMap },
    /// Takes a request back.
    Cancelled { id: Option<Id> },
    /// Answers a question that a server without sessions never asks.
    Answer,
}

/// Reads a line; `revision` is what `initialize` came to, once it did.
///
/// # Errors
/// The answer for a line that is no message.
pub(crate) fn read(line: &[u8], revision: Option<&str>) -> Result<Message, Response> {
    let refuse = |id: Option<Id>, code: i64, message: String| {
        Err(Response::error(id, RpcError { code, message, data: None }))
    };
    let message = match json::parse(line) {
        Ok(Value::Object(message)) => message,
        Ok(_) => {
            let text = "a line is one message: a JSON object, and no batch";
            return refuse(None, code::INVALID_REQUEST, text.to_owned());
        }
        Err(JsonError::Syntax(reason) | JsonError::Shape(reason)) => {
            return refuse(None, code::PARSE_ERROR, format!("the line is not JSON: {reason}"));
        }
    };
    let id = message.get("id").map(|id| serde_json::from_value::<Id>(id.clone()));
    let Some(method) = message.get("method") else {
        return match (message.contains_key("result") || message.contains_key("error"), id) {
            (true, _) => Ok(Message::Answer),
            (false, id) => {
                refuse(id.and_then(Result::ok), code::INVALID_REQUEST, "a message has a method".to_owned())
            }
        };
    };
    let Some(method) = method.as_str() else {
        return refuse(None, code::INVALID_REQUEST, "a method is a text".to_owned());
    };
    let params = message.get("params");
    let headers = headers(method, params, revision);
    match id {
        None if method == "notifications/cancelled" => {
            let id = params.and_then(|params| params.get("requestId"));
            Ok(Message::Cancelled { id: id.and_then(|id| serde_json::from_value(id.clone()).ok()) })
        }
        None => Ok(Message::Notification { headers }),
        Some(Ok(id)) => Ok(Message::Request { id, method: method.to_owned(), headers }),
        Some(Err(_)) => {
            refuse(None, code::INVALID_REQUEST, "an id is a text or a whole number of 64 bits".to_owned())
        }
    }
}

/// The headers that Streamable HTTP wants beside the message. A message that carries its own revision (2026-07-28) also says
/// in them what it is; an older one only names the revision that was negotiated.
fn headers(method: &str, params: Option<&Value>, revision: Option<&str>) -> HeaderMap {
    let own = params.and_then(|params| params.get("_meta")?.get(VERSION_KEY)?.as_str());
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        headers.insert(HeaderName::from_static(name), header_value(value));
    };
    match own {
        Some(own) => {
            set("mcp-protocol-version", own);
            set("mcp-method", method);
            let subject = if method == "resources/read" { "uri" } else { "name" };
            if let Some(name) = params.and_then(|params| params.get(subject)?.as_str()) {
                set("mcp-name", name);
            }
        }
        None if method != "initialize" => {
            if let Some(revision) = revision {
                set("mcp-protocol-version", revision);
            }
        }
        None => {}
    }
    headers
}

/// Text that is not plain travels in base64, as the revision 2026-07-28 writes it.
fn header_value(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) && !text.starts_with("=?base64?");
    let written = if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    HeaderValue::from_str(&written).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The revision that an answer to `initialize` settles on.
pub(crate) fn negotiated(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer["result"]["protocolVersion"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(line: &str) -> Option<i64> {
        let answer = serde_json::to_value(read(line.as_bytes(), None).err()?).expect("json");
        answer["error"]["code"].as_i64()
    }

    fn headers_of(line: &str, revision: Option<&str>) -> Vec<(String, String)> {
        let (Message::Request { headers, .. } | Message::Notification { headers }) =
            read(line.as_bytes(), revision).expect("a message")
        else {
            panic!("no message with headers: {line}")
        };
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().expect("text").to_owned())
        };
        headers.iter().map(text).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    // proves: M-03
    #[test]
    fn a_line_that_is_no_message_gets_the_code_of_its_fault() {
        assert_eq!(code_of("{"), Some(-32_700));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#), Some(-32_700));
        assert_eq!(code_of("[]"), Some(-32_600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#), Some(-32_600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"method":1}"#), Some(-32_600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1}"#), Some(-32_600));
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None), Ok(Message::Answer));
    }

    #[test]
    fn an_older_message_names_the_negotiated_revision_and_a_newer_one_names_itself() {
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(headers_of(list, None), []);
        assert_eq!(headers_of(list, Some("2025-06-18")), [pair("mcp-protocol-version", "2025-06-18")]);
        let init = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        assert_eq!(headers_of(init, Some("2025-06-18")), []);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a b",
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(
            headers_of(call, Some("2025-06-18")),
            [
                pair("mcp-protocol-version", "2026-07-28"),
                pair("mcp-method", "tools/call"),
                pair("mcp-name", "=?base64?YSBi?="),
            ]
        );
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let line = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        assert_eq!(read(line, None), Ok(Message::Cancelled { id: Some(Id::Text("a".to_owned())) }));
    }
}
