//! JSON-RPC 2.0 envelopes, as MCP uses them (no batches; ids are echoed unchanged).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `"2.0"` that every envelope carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version;

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("2.0")
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "2.0" { Ok(Self) } else { Err(serde::de::Error::custom("jsonrpc must be \"2.0\"")) }
    }
}

/// A request id: a number or a string, never null (MCP narrows JSON-RPC here).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// Any text.
    Text(String),
}

/// A request, or a notification when it carries no id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Always `"2.0"`.
    pub jsonrpc: Version,
    /// Absent on a notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Case-sensitive method name, such as `tools/call`.
    pub method: String,
    /// Parameters, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

/// A response: a result or an error, for one id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Always `"2.0"`.
    pub jsonrpc: Version,
    /// The id of the request; null when the request's own id could not be read.
    pub id: Option<Id>,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The one of `result` and `error` that a response carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// The method ran.
    #[serde(rename = "result")]
    Result(Value),
    /// The method did not run.
    #[serde(rename = "error")]
    Error(RpcError),
}

/// A protocol error. What a *tool* has to say about its own failure is a result with `isError`, never this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of the constants in [`code`].
    pub code: i64,
    /// One sentence for a person.
    pub message: String,
    /// Details for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The error codes in use.
pub mod code {
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// JSON, but not a request (batches included).
    pub const INVALID_REQUEST: i64 = -32_600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The parameters do not fit, or the tool is unknown.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// Our own failure, audit and database outages included.
    pub const INTERNAL_ERROR: i64 = -32_603;
}

impl Request {
    /// Reads one request.
    ///
    /// # Errors
    /// An [`RpcError`] ready to send: −32700 when the bytes are not strict JSON, −32600 when they are not one request.
    pub fn parse(bytes: &[u8]) -> Result<Self, RpcError> {
        crate::json::parse_as(bytes).map_err(|error| {
            let code = match error {
                crate::json::JsonError::Syntax(_) => code::PARSE_ERROR,
                crate::json::JsonError::Shape(_) => code::INVALID_REQUEST,
            };
            RpcError { code, message: error.to_string(), data: None }
        })
    }
}

impl Response {
    /// A successful answer to `id`.
    #[must_use]
    pub fn result(id: Id, result: Value) -> Self {
        Self { jsonrpc: Version, id: Some(id), outcome: Outcome::Result(result) }
    }

    /// A protocol error for `id`, or for a request whose id could not be read.
    #[must_use]
    pub fn error(id: Option<Id>, error: RpcError) -> Self {
        Self { jsonrpc: Version, id, outcome: Outcome::Error(error) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves: M-02, M-03
    #[test]
    fn bad_envelopes_get_their_own_codes() {
        let code_of = |text: &str| Request::parse(text.as_bytes()).map_err(|e| e.code);

        assert_eq!(code_of("{"), Err(code::PARSE_ERROR));
        assert_eq!(code_of(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), Err(code::INVALID_REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), Err(code::INVALID_REQUEST));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#), Err(code::INVALID_REQUEST));
        assert!(code_of(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).is_ok());
    }

    #[test]
    fn an_id_is_echoed_as_it_came() {
        for id in [json!(7), json!("7")] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            let request = Request::parse(request.to_string().as_bytes()).expect("a request");
            let response = Response::result(request.id.expect("an id"), json!({}));
            assert_eq!(serde_json::to_value(response).expect("json")["id"], id);
        }
    }
}
