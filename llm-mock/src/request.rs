//! The body of a chat request, and the rules that the real service holds it to.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use crate::error::ApiError;

/// A request that keeps the rules. Fields that have no influence here are left out.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    #[serde(default)]
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) messages: Vec<Message>,
    tools: Option<Vec<Tool>>,
    pub(crate) tool_choice: Option<ToolChoice>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: Role,
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<PastCall>>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
struct PastCall {
    id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tool {
    #[serde(rename = "type")]
    _kind: FunctionKind,
    pub(crate) function: Function,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FunctionKind {
    Function,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    parameters: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ToolChoice {
    Mode(ToolMode),
    Named { function: Function },
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolMode {
    None,
    Auto,
    Required,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl ChatRequest {
    /// Reads a body, and refuses it as the real service would.
    pub(crate) fn parse(body: &Value) -> Result<Self, ApiError> {
        let request = Self::deserialize(body)
            .map_err(|error| ApiError::body(format!("the body is not a chat request: {error}")))?;
        if request.model.is_empty() {
            return Err(ApiError::param("model", "a model must be named"));
        }
        if request.messages.is_empty() {
            return Err(ApiError::param("messages", "there must be at least one message"));
        }
        if request.stream_options.is_some() && !request.streams() {
            return Err(ApiError::param("stream_options", "only a stream has stream_options"));
        }
        request.check_tools()?;
        request.check_tool_choice()?;
        request.check_messages()?;
        Ok(request)
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        self.tools.as_deref().unwrap_or_default()
    }

    pub(crate) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    pub(crate) fn streams_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true)
    }

    /// How many calls the model has made in this conversation.
    pub(crate) fn past_calls(&self) -> usize {
        self.messages.iter().map(|message| message.calls().len()).sum()
    }

    /// How often the model has spoken in this conversation.
    pub(crate) fn past_turns(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Role::Assistant).count()
    }

    fn check_tools(&self) -> Result<(), ApiError> {
        if self.tools.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::param("tools", "tools must be left out or not be empty"));
        }
        let mut names = HashSet::new();
        for (index, Tool { function, .. }) in self.tools().iter().enumerate() {
            let param = format!("tools[{index}].function.name");
            if !is_function_name(&function.name) {
                let message = "the name of a function must match ^[a-zA-Z0-9_-]{1,64}$";
                return Err(ApiError::param(param, message).code("invalid_value"));
            }
            if !names.insert(&function.name) {
                return Err(ApiError::param(param, "two functions have this name").code("invalid_value"));
            }
            if function.parameters.as_ref().is_some_and(|schema| schema["type"] != "object") {
                let param = format!("tools[{index}].function.parameters");
                let message = "parameters must be a JSON Schema with \"type\": \"object\"";
                return Err(ApiError::param(param, message).code("invalid_function_parameters"));
            }
        }
        Ok(())
    }

    fn check_tool_choice(&self) -> Result<(), ApiError> {
        let found = match &self.tool_choice {
            None | Some(ToolChoice::Mode(ToolMode::None)) => true,
            Some(ToolChoice::Mode(ToolMode::Auto | ToolMode::Required)) => !self.tools().is_empty(),
            Some(ToolChoice::Named { function }) => {
                self.tools().iter().any(|tool| tool.function.name == function.name)
            }
        };
        if found { Ok(()) } else { Err(ApiError::param("tool_choice", "the chosen tool is not among tools")) }
    }

    /// Every result must answer a call, and every call must be answered before anybody else speaks.
    fn check_messages(&self) -> Result<(), ApiError> {
        let mut open = HashSet::new();
        for (index, message) in self.messages.iter().enumerate() {
            if message.content.is_none() && (message.role != Role::Assistant || message.calls().is_empty()) {
                let param = format!("messages[{index}].content");
                return Err(ApiError::param(param, "the message has no content"));
            }
            if message.role == Role::Tool {
                if !message.tool_call_id.as_deref().is_some_and(|id| open.remove(id)) {
                    let param = format!("messages[{index}].tool_call_id");
                    return Err(ApiError::param(
                        param,
                        "a tool message must answer a call that is still open",
                    ));
                }
                continue;
            }
            unanswered(index, &open)?;
            open.extend(message.calls().iter().map(|call| call.id.as_str()));
        }
        unanswered(self.messages.len(), &open)
    }
}

impl Message {
    /// The text of the message, its parts one per line.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn calls(&self) -> &[PastCall] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

fn unanswered(index: usize, open: &HashSet<&str>) -> Result<(), ApiError> {
    if open.is_empty() {
        return Ok(());
    }
    let message = "each call of an assistant message must be followed by the tool message that answers it";
    Err(ApiError::param(format!("messages[{index}]"), message))
}

fn is_function_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(body: Value) -> Option<String> {
        ChatRequest::parse(&body).err().map(|error| error.named().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_the_real_service_refuses_is_refused_by_the_name_of_the_parameter() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let user = json!({"role": "user", "content": "hi"});
        let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1"}]});
        let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "x"});
        let with = |key: &str, value: Value| {
            let mut body = json!({"model": "m", "messages": [user.clone()]});
            body[key] = value;
            refused(body)
        };
        let messages = |messages: &[&Value]| with("messages", json!(messages));
        let choice = json!({"type": "function", "function": {"name": "missing"}});

        assert_eq!(with("model", json!("other")), None);
        assert_eq!(with("model", json!("")).as_deref(), Some("model"));
        assert_eq!(with("model", json!(7)).as_deref(), Some(""));
        assert_eq!(with("messages", json!([])).as_deref(), Some("messages"));
        assert_eq!(with("tools", json!([tool("a"), tool("b")])), None);
        assert_eq!(with("tools", json!([])).as_deref(), Some("tools"));
        assert_eq!(with("tools", json!([tool("a.b")])).as_deref(), Some("tools[0].function.name"));
        assert_eq!(with("tools", json!([tool(&"a".repeat(65))])).as_deref(), Some("tools[0].function.name"));
        assert_eq!(with("tools", json!([tool("a"), tool("a")])).as_deref(), Some("tools[1].function.name"));
        let untyped = json!([{"type": "function", "function": {"name": "a", "parameters": {}}}]);
        assert_eq!(with("tools", untyped).as_deref(), Some("tools[0].function.parameters"));
        assert_eq!(with("tool_choice", json!("none")), None);
        assert_eq!(with("tool_choice", json!("required")).as_deref(), Some("tool_choice"));
        assert_eq!(with("tool_choice", choice).as_deref(), Some("tool_choice"));
        assert_eq!(with("stream_options", json!({})).as_deref(), Some("stream_options"));
        assert_eq!(messages(&[&user, &call, &result]), None);
        assert_eq!(messages(&[&json!({"role": "user"})]).as_deref(), Some("messages[0].content"));
        assert_eq!(messages(&[&user, &result]).as_deref(), Some("messages[1].tool_call_id"));
        assert_eq!(messages(&[&call, &result, &result]).as_deref(), Some("messages[2].tool_call_id"));
        assert_eq!(messages(&[&call, &user]).as_deref(), Some("messages[1]"));
        assert_eq!(messages(&[&user, &call]).as_deref(), Some("messages[2]"));
    }
}
