//! The reply as JSON, whole or in chunks.

use serde_json::{Value, json};

use crate::decide::{Call, Reply};
use crate::request::ChatRequest;

/// How many characters a chunk carries: few, so that even a short text comes in several, and words are torn.
const PIECE_CHARS: usize = 7;

/// One completion on its way out.
pub(crate) struct Completion<'a> {
    request: &'a ChatRequest,
    reply: Reply,
}

impl<'a> Completion<'a> {
    pub(crate) fn new(request: &'a ChatRequest, reply: Reply) -> Self {
        Self { request, reply }
    }

    /// The answer in one piece.
    pub(crate) fn whole(&self) -> Value {
        let message = match &self.reply {
            Reply::Text(text) => json!({"role": "assistant", "content": text, "refusal": null}),
            Reply::Calls(calls) => {
                let written = |(index, Call { name, arguments }): (usize, &Call)| {
                    let function = json!({"name": name, "arguments": arguments});
                    json!({"id": self.call_id(index), "type": "function", "function": function})
                };
                let calls: Vec<_> = calls.iter().enumerate().map(written).collect();
                json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls})
            }
        };
        let choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": self.finish_reason(),
        });
        let mut completion = self.envelope("chat.completion", vec![choice]);
        completion["usage"] = self.usage();
        completion
    }

    /// The answer as the events of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut chunks: Vec<_> = self.deltas().into_iter().map(|delta| self.chunk(delta, None)).collect();
        chunks.push(self.chunk(json!({}), Some(self.finish_reason())));
        if self.request.streams_usage() {
            // The key is there from the first chunk on, and has a value in the last only.
            chunks.iter_mut().for_each(|chunk| chunk["usage"] = Value::Null);
            let mut last = self.envelope("chat.completion.chunk", Vec::new());
            last["usage"] = self.usage();
            chunks.push(last);
        }
        let data = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
        data.map(|data| format!("data: {data}\n\n")).collect()
    }

    fn deltas(&self) -> Vec<Value> {
        match &self.reply {
            Reply::Text(text) => {
                let first = json!({"role": "assistant", "content": "", "refusal": null});
                let rest = pieces(text).map(|piece| json!({"content": piece}));
                [first].into_iter().chain(rest).collect()
            }
            Reply::Calls(calls) => {
                let first = json!({"role": "assistant", "content": null, "refusal": null});
                let each = calls.iter().enumerate().flat_map(|(index, call)| self.call_deltas(index, call));
                [first].into_iter().chain(each).collect()
            }
        }
    }

    fn call_deltas(&self, index: usize, call: &Call) -> Vec<Value> {
        let opening = json!({"tool_calls": [{
            "index": index,
            "id": self.call_id(index),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }]});
        let rest = pieces(&call.arguments)
            .map(|piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        [opening].into_iter().chain(rest).collect()
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        self.envelope("chat.completion.chunk", vec![choice])
    }

    fn envelope(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": format!("chatcmpl-{}", self.request.messages.len()),
            "object": object,
            "created": 0,
            "model": self.request.model,
            "choices": choices,
        })
    }

    /// Calls are numbered through a conversation, so that two of them never share an id.
    fn call_id(&self, index: usize) -> String {
        format!("call_{}", self.request.past_calls() + 1 + index)
    }

    fn finish_reason(&self) -> &'static str {
        match self.reply {
            Reply::Text(_) => "stop",
            Reply::Calls(_) => "tool_calls",
        }
    }

    /// Words stand in for tokens.
    fn usage(&self) -> Value {
        let words = |text: &str| text.split_whitespace().count();
        let prompt: usize = self.request.messages.iter().map(|message| words(&message.text())).sum();
        let completion = match &self.reply {
            Reply::Text(text) => words(text),
            Reply::Calls(calls) => calls.iter().map(|call| words(&call.name) + words(&call.arguments)).sum(),
        };
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        })
    }
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let count = chars.len().div_ceil(PIECE_CHARS);
    (0..count).map(move |index| chars[index * PIECE_CHARS..].iter().take(PIECE_CHARS).collect())
}
