//! The tools that the conformance suite calls, as far as one answer to one request can be theirs. Those that ask something
//! back of the client, or tell of their progress, are not here: no tool of this program does.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_broker::transport::ToolServer;
use mcp_core::jsonrpc::{RpcError, code};
use mcp_core::mcp::{Annotations, CallToolParams, CallToolResult, Content, TextResource, Tool};
use mcp_core::principal::Principal;
use serde_json::{Map, Value, json};

/// One red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// No sample at all, which is a sound too.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(crate) struct FixtureTools;

#[async_trait]
impl ToolServer for FixtureTools {
    async fn instructions(&self, _: &Principal) -> Result<String, RpcError> {
        Ok("The tools of the conformance suite.".to_owned())
    }

    async fn list(&self, _: &Principal) -> Result<Vec<Tool>, RpcError> {
        let plain = json!({"type": "object", "additionalProperties": false});
        let tools = [
            ("test_simple_text", plain.clone()),
            ("test_image_content", plain.clone()),
            ("test_audio_content", plain.clone()),
            ("test_embedded_resource", plain.clone()),
            ("test_multiple_content_types", plain.clone()),
            ("test_error_handling", plain.clone()),
            ("test_logging_tool", plain.clone()),
            ("test_streaming_elicitation", plain),
            ("json_schema_2020_12_tool", every_keyword()),
        ];
        Ok(tools.into_iter().map(|(name, schema)| tool(name, schema)).collect())
    }

    async fn call(&self, _: Arc<Principal>, params: CallToolParams) -> Result<CallToolResult, RpcError> {
        let (content, is_error) = match params.name.as_str() {
            "test_simple_text" => (vec![text("words and nothing else")], false),
            "test_image_content" => (vec![image()], false),
            "test_audio_content" => {
                (vec![Content::Audio { data: WAV.to_owned(), mime_type: "audio/wav".to_owned() }], false)
            }
            "test_embedded_resource" => {
                (vec![resource("test://words", "text/plain", "words in a document")], false)
            }
            "test_multiple_content_types" => {
                let document = resource("test://data", "application/json", r#"{"kinds": 3}"#);
                (vec![text("one of each"), image(), document], false)
            }
            "test_error_handling" => (vec![text("this tool always fails")], true),
            // What the suite looks for is that nothing travels beside the answer: it names no log level.
            "test_logging_tool" => (vec![text("nothing is logged to clients")], false),
            // Likewise: no question may stand on the way of the answer.
            "test_streaming_elicitation" => (vec![text("clients are asked nothing here")], true),
            "json_schema_2020_12_tool" => (vec![text("the schema is what counts")], false),
            other => {
                let message = format!("Unknown tool: {other}");
                return Err(RpcError { code: code::INVALID_PARAMS, message, data: None });
            }
        };
        Ok(CallToolResult { content, structured_content: None, is_error, meta: Map::new() })
    }

    async fn mismatch(&self, _: &Principal, _: &str) {}
}

fn tool(name: &str, input_schema: Value) -> Tool {
    Tool {
        name: name.to_owned(),
        title: name.to_owned(),
        description: "One of the conformance suite's.".to_owned(),
        input_schema,
        output_schema: None,
        annotations: Annotations {
            title: None,
            read_only_hint: true,
            idempotent_hint: true,
            open_world_hint: false,
        },
    }
}

fn text(text: &str) -> Content {
    Content::Text { text: text.to_owned() }
}

fn image() -> Content {
    Content::Image { data: PNG.to_owned(), mime_type: "image/png".to_owned() }
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    let (uri, text) = (uri.to_owned(), text.to_owned());
    Content::Resource { resource: TextResource { uri, mime_type: Some(mime_type.to_owned()), text } }
}

/// A schema with the keywords that the suite wants to see arrive as they were sent.
fn every_keyword() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "place", "type": "object", "properties": {"city": {"type": "string"}}}},
        "properties": {
            "address": {"$ref": "#/$defs/address"},
            "by": {"enum": ["letter", "call"]},
            "number": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["address"]}, {"required": ["number"]}]}],
        "if": {"properties": {"by": {"const": "letter"}}, "required": ["by"]},
        "then": {"required": ["address"]},
        "else": {"required": ["number"]},
        "additionalProperties": false,
    })
}
