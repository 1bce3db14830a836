//! A model's call, whatever the model wrote.

use mcp_core::jsonrpc::{Id, Request, code};
use mcp_core::mcp::{CallToolResult, Content};
use mcp_core::openai::{FunctionCall, ToolCall, call_params, call_request, tool_message};
use mcp_core::tool::ToolName;
use serde_json::{Map, Value};

/// The input is the function's name, a line break and its arguments as a text; or it is a call as JSON.
///
/// # Panics
/// When a call is translated to another one than was written, when one that is not JSON is translated at all, or when a
/// refusal repeats what it was given at length.
pub fn translator(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (name, arguments) = text.split_once('\n').unwrap_or((&text, ""));
    let function = FunctionCall { name: name.to_owned(), arguments: Value::String(arguments.to_owned()) };
    check(&ToolCall { id: name.to_owned(), function });
    if let Ok(call) = serde_json::from_slice::<ToolCall>(input) {
        check(&call);
    }
    check_message(&text);
}

fn check(call: &ToolCall) {
    let written = match &call.function.arguments {
        Value::String(text) if text.trim().is_empty() => Some(Map::new()),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Null) => Some(Map::new()),
            Ok(Value::Object(object)) => Some(object),
            _ => None,
        },
        Value::Null => Some(Map::new()),
        Value::Object(object) => Some(object.clone()),
        _ => None,
    };
    let request = call_request(call, Id::Text(call.id.clone()));
    match call_params(call) {
        Ok(params) => {
            // A lenient reader must see the same, or one of them was misled.
            assert_eq!(Some(&params.arguments), written.as_ref());
            match ToolName::parse(&call.function.name) {
                Some(tool) => assert_eq!(params.name, tool.as_str()),
                None => assert_eq!(params.name, call.function.name),
            }
            let request = request.expect("what has params has a request");
            let sent = serde_json::to_vec(&request).expect("a request is JSON");
            assert_eq!(serde_json::from_slice::<Request>(&sent).expect("it reads back"), request);
        }
        Err(error) => {
            let refusal = request.expect_err("what has no params has no request");
            assert_eq!((refusal.code, refusal.message), (code::INVALID_PARAMS, error.to_string()));
            let message = error.to_string();
            assert!(message.chars().count() < 250 && !message.contains(char::is_control), "{message:?}");
        }
    }
}

/// The texts of a result reach the model whole and in order.
fn check_message(text: &str) {
    let blocks: Vec<&str> = text.split('\0').collect();
    let content = blocks.iter().map(|text| Content::Text { text: (*text).to_owned() }).collect();
    let mut result = CallToolResult { content, structured_content: None, is_error: false, meta: Map::new() };
    let whole = blocks.join("\n");
    assert_eq!(tool_message("c", &result).content, whole);
    result.is_error = true;
    assert_eq!(tool_message("c", &result).content, format!("ERROR: {whole}"));
}
