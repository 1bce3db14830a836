//! Between the function calls of OpenAI-compatible models and MCP: pure translations both ways (SPEC §7).
//!
//! Such models allow no dot in a function's name, so tools are offered under their wire names. What comes back is
//! translated, never executed here: a call that cannot be read is a protocol error, and nothing runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::jsonrpc::{Id, Request, RpcError, Version, code};
use crate::mcp::{CallToolParams, CallToolResult, Content};
use crate::tool::{ToolDefinition, ToolName};

/// What stands before the text of a tool that failed, since a tool message has no field for it.
const ERROR_PREFIX: &str = "ERROR: ";

/// One of an assistant message's `tool_calls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own name for the call; the answering tool message repeats it.
    pub id: String,
    /// Which function, with what.
    pub function: FunctionCall,
}

/// The function of a [`ToolCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The name as the model spelled it.
    pub name: String,
    /// A text that holds a JSON object, or (from some servers) the object itself; absent, null or empty without
    /// arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// The message that brings a tool's result back to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// Always `tool`.
    pub role: ToolRole,
    /// The [`ToolCall::id`] that it answers.
    pub tool_call_id: String,
    /// The result's texts, one per line; `ERROR: ` before them when the tool failed.
    pub content: String,
}

/// The role of a [`ToolMessage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolRole {
    /// The one role that a tool's result has.
    Tool,
}

/// A model's call that cannot be read. Nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The arguments are a text, but not strict JSON. The reason never quotes them.
    #[error("the arguments of {function} are not JSON: {reason}")]
    NotJson {
        /// The function's name, bounded.
        function: String,
        /// Where and what.
        reason: String,
    },
    /// The arguments are JSON, but no object.
    #[error("the arguments of {function} must be a JSON object")]
    NotAnObject {
        /// The function's name, bounded.
        function: String,
    },
}

impl From<TranslateError> for RpcError {
    fn from(error: TranslateError) -> Self {
        Self { code: code::INVALID_PARAMS, message: error.to_string(), data: None }
    }
}

/// A tool as an entry of a chat request's `tools`.
#[must_use]
pub fn function_definition(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name.wire(),
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    })
}

/// The `params` of the `tools/call` that a model's call means. A name of ours becomes the canonical one; any other is
/// passed on as it is, for the pipeline to refuse and write down.
///
/// # Errors
/// [`TranslateError`] when the arguments are not one JSON object without duplicate keys.
pub fn call_params(call: &ToolCall) -> Result<CallToolParams, TranslateError> {
    let FunctionCall { name, arguments } = &call.function;
    let function = || name.chars().filter(|c| !c.is_control()).take(80).collect::<String>();
    let object = |value: Value| match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        _ => Err(TranslateError::NotAnObject { function: function() }),
    };
    let arguments = match arguments {
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => {
            let parsed = crate::json::parse(text.as_bytes());
            object(parsed.map_err(|error| TranslateError::NotJson {
                function: function(),
                reason: error.to_string(),
            })?)?
        }
        other => object(other.clone())?,
    };
    let name = ToolName::parse(name).map_or_else(|| name.clone(), |tool| tool.as_str().to_owned());
    Ok(CallToolParams { name, arguments })
}

/// The whole `tools/call` request that a model's call means, under an id of the caller's choice.
///
/// # Errors
/// The [`RpcError`] of a [`TranslateError`].
pub fn call_request(call: &ToolCall, id: Id) -> Result<Request, RpcError> {
    let params = serde_json::to_value(call_params(call)?);
    let params = params.map_err(|_| RpcError {
        code: code::INTERNAL_ERROR,
        message: "the call cannot be written as JSON".to_owned(),
        data: None,
    })?;
    Ok(Request { jsonrpc: Version, id: Some(id), method: "tools/call".to_owned(), params: Some(params) })
}

/// The message that answers a model's call with a result. It holds text only, so of anything else it says what it was.
#[must_use]
pub fn tool_message(tool_call_id: &str, result: &CallToolResult) -> ToolMessage {
    let text = |content: &Content| match content {
        Content::Text { text } => text.clone(),
        Content::Resource { resource } => resource.text.clone(),
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
            format!("[{mime_type}, left out of a message of text]")
        }
    };
    let texts: Vec<String> = result.content.iter().map(text).collect();
    let prefix = if result.is_error { ERROR_PREFIX } else { "" };
    ToolMessage {
        role: ToolRole::Tool,
        tool_call_id: tool_call_id.to_owned(),
        content: format!("{prefix}{}", texts.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::CallError;
    use crate::tool::catalogue;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: "call_1".to_owned(), function: FunctionCall { name: name.to_owned(), arguments } }
    }

    fn result(texts: &[&str], is_error: bool) -> CallToolResult {
        let content = texts.iter().map(|text| Content::Text { text: (*text).to_owned() }).collect();
        CallToolResult { content, structured_content: None, is_error, meta: Map::new() }
    }

    // proves: X-01, X-05
    #[test]
    fn a_functions_name_and_arguments_become_the_params_of_a_call() {
        let text = json!(r#"{"owner":"o","repo":"r"}"#);
        let request = call_request(&call("github__get_recent_ci_runs", text), Id::Number(1)).expect("a call");
        assert_eq!(
            serde_json::to_value(request).expect("json"),
            json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": "github.get_recent_ci_runs", "arguments": {"owner": "o", "repo": "r"} },
            })
        );
    }

    // proves: X-02
    #[test]
    fn arguments_come_as_text_or_object_and_none_means_none() {
        let arguments =
            |value: Value| call_params(&call("github.list_repos", value)).map(|params| params.arguments);
        for none in [json!(""), json!("  "), json!("{}"), json!("null"), json!(null), json!({})] {
            assert_eq!(arguments(none.clone()), Ok(Map::new()), "{none}");
        }
        let object = json!({"target_id": "gh"});
        assert_eq!(arguments(object.clone()).ok(), object.as_object().cloned());
    }

    // proves: X-02, C-P09
    #[test]
    fn arguments_that_cannot_be_read_are_a_protocol_error_and_never_a_call() {
        for text in ["{", "{\"a\":1,\"a\":2}", "{'a':1}", "{} {}", "\u{0}"] {
            let error =
                call_request(&call("github__list_repos", json!(text)), Id::Number(1)).expect_err(text);
            assert_eq!(error.code, code::INVALID_PARAMS, "{text}");
        }
        for value in [json!("[]"), json!("3"), json!(true), json!([1])] {
            let error = call_params(&call("github__list_repos", value)).expect_err("no object");
            assert!(matches!(error, TranslateError::NotAnObject { .. }));
        }
        let deep = format!("{}{}", "{\"a\":".repeat(500), "1");
        assert!(call_params(&call("x", json!(deep))).is_err());
    }

    // proves: X-03, X-04
    #[test]
    fn a_result_becomes_one_message_with_its_texts_and_says_when_it_failed() {
        let message = tool_message("call_1", &result(&["one", "two"], false));
        let written = serde_json::to_value(message).expect("json");
        assert_eq!(written, json!({"role": "tool", "tool_call_id": "call_1", "content": "one\ntwo"}));

        let failed = tool_message("call_1", &CallToolResult::failure(&CallError::TargetOffline));
        assert!(failed.content.starts_with("ERROR: {"), "{}", failed.content);
    }

    // proves: X-06
    #[test]
    fn every_tool_is_offered_under_a_name_that_models_take() {
        for tool in catalogue() {
            let function = &function_definition(tool)["function"];
            let name = function["name"].as_str().expect("a name");
            assert!(
                name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
                "{name}"
            );
            let params = call_params(&call(name, json!(null))).expect("a call");
            assert_eq!(params.name, tool.name.as_str());
        }
    }

    proptest! {
        #[test]
        fn whatever_an_object_holds_survives_either_form(map in "[a-z]{1,8}", number in any::<i64>(), text in ".*") {
            let object = json!({ map: number, "text": text });
            let direct = call_params(&call("x", object.clone())).expect("an object");
            let written = call_params(&call("x", json!(object.to_string()))).expect("a text");
            prop_assert_eq!(direct, written);
        }

        #[test]
        fn no_text_makes_it_panic(name in ".*", text in ".*") {
            let _ = call_params(&call(&name, json!(text)));
        }
    }
}
