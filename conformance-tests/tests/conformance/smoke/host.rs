//! What stands between a model and the server: it offers the tools, carries the calls across, and brings back what came.

use std::collections::BTreeMap;

use llm_mock::Running;
use mcp_core::jsonrpc::{Id, RpcError};
use mcp_core::mcp::{CallToolResult, MCP_PROTOCOL_VERSION};
use mcp_core::openai::{ToolCall, call_request, tool_message};
use serde_json::{Value, json};

use crate::product::Product;

/// A model that does not come to an end is stopped.
const MOST_TURNS: usize = 8;

/// How a conversation went.
pub(crate) struct Talk {
    /// Everything that was said, in order.
    pub(crate) messages: Vec<Value>,
    /// What each call came to.
    pub(crate) outcomes: Vec<Outcome>,
    /// The model's last word.
    pub(crate) answer: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// A result of the tool, good or bad.
    Result(CallToolResult),
    /// Refused by the server, in JSON-RPC.
    Refused(RpcError),
    /// Never sent: it was no call.
    Unreadable(RpcError),
}

/// Leads a conversation to its end.
pub(crate) async fn talk(product: &Product, model: &Running, prompt: &str, is_streamed: bool) -> Talk {
    let tools = offered(product).await;
    let mut messages = vec![json!({"role": "user", "content": prompt})];
    let mut outcomes = Vec::new();
    for _ in 0..MOST_TURNS {
        let request = json!({"model": "any", "messages": messages, "tools": tools, "stream": is_streamed});
        let said = ask(product, model, &request).await;
        messages.push(said.clone());
        let Some(calls) = said["tool_calls"].as_array() else {
            let answer = said["content"].as_str().expect("a text").to_owned();
            return Talk { messages, outcomes, answer };
        };
        for call in calls {
            let call: ToolCall = serde_json::from_value(call.clone()).expect("a call");
            let outcome = carry(product, &call).await;
            messages.push(told(&call, &outcome));
            outcomes.push(outcome);
        }
    }
    panic!("the model does not come to an end: {messages:?}");
}

async fn offered(product: &Product) -> Value {
    let url = format!("{}/api/mcp/tools?format=openai", product.url);
    let answer = product.http.get(url).bearer_auth(&product.operator).send().await.expect("an answer");
    let mut body: Value = answer.json().await.expect("JSON");
    body["tools"].take()
}

/// The model's message, whole however it came.
async fn ask(product: &Product, model: &Running, request: &Value) -> Value {
    let url = format!("{}/chat/completions", model.url());
    let answer = product.http.post(url).json(request).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a text");
    assert_eq!(status, 200, "{text}");
    if request["stream"] == true {
        return assembled(&text);
    }
    let mut body: Value = serde_json::from_str(&text).expect("JSON");
    body["choices"][0]["message"].take()
}

/// A message from the pieces of a stream.
fn assembled(stream: &str) -> Value {
    let mut content = String::new();
    let mut calls: BTreeMap<u64, Value> = BTreeMap::new();
    let events = stream.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: "));
    for event in events.take_while(|event| *event != "[DONE]") {
        let chunk: Value = serde_json::from_str(event).expect("JSON");
        let delta = &chunk["choices"][0]["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let call =
                calls.entry(piece["index"].as_u64().expect("an index")).or_insert_with(|| piece.clone());
            if piece.get("id").is_none() {
                let so_far = call["function"]["arguments"].as_str().expect("arguments");
                let more = piece["function"]["arguments"].as_str().expect("arguments");
                call["function"]["arguments"] = json!(format!("{so_far}{more}"));
            }
        }
    }
    if calls.is_empty() {
        return json!({"role": "assistant", "content": content});
    }
    json!({"role": "assistant", "content": null, "tool_calls": calls.into_values().collect::<Vec<_>>()})
}

/// Takes a call to the server, if it is one.
async fn carry(product: &Product, call: &ToolCall) -> Outcome {
    let request = match call_request(call, Id::Text(call.id.clone())) {
        Ok(request) => request,
        Err(error) => return Outcome::Unreadable(error),
    };
    let (_, mut body) = product.mcp(&json!(request), MCP_PROTOCOL_VERSION).await;
    assert_eq!(body["id"], json!(call.id), "{body}");
    match body.get_mut("error").map(Value::take) {
        Some(error) => Outcome::Refused(serde_json::from_value(error).expect("an error")),
        None => Outcome::Result(serde_json::from_value(body["result"].take()).expect("a result")),
    }
}

/// What the model hears of a call. Each has to be answered, or the next request would be refused.
fn told(call: &ToolCall, outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Result(result) => json!(tool_message(&call.id, result)),
        Outcome::Refused(error) | Outcome::Unreadable(error) => {
            let content = format!("the call was refused: {} ({})", error.message, error.code);
            json!({"role": "tool", "tool_call_id": call.id, "content": content})
        }
    }
}
