//! MCP message shapes of the pinned revision: tools, content and results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::document::Document;
use crate::error::CallError;
use crate::tool::{ToolDefinition, ToolOutput, budget};

/// The revision that conformance evidence names (SPEC §7).
pub const MCP_PROTOCOL_VERSION: &str = "2025-06-18";

/// Data is not cut below so many bytes: what is left would say nothing.
const LEAST_ROOM: usize = 768;

/// A tool as `tools/list` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Canonical dotted name on REST and in process; the wire name on MCP surfaces.
    pub name: String,
    /// A short name for people.
    pub title: String,
    /// What the tool answers, for a model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of `structuredContent`, when the tool promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints for clients. Nothing in this program decides by them.
    pub annotations: Annotations,
}

/// The hints of a read-only tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// A short name for people, where [`Tool::title`] holds the canonical name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing. Always true here.
    pub read_only_hint: bool,
    /// Calling twice is as good as calling once. Always true here.
    pub idempotent_hint: bool,
    /// The answer depends on a world outside. Always true here.
    pub open_world_hint: bool,
}

/// The `params` of `tools/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToolParams {
    /// The tool, in either spelling.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// One block of a result. The tools of this program answer with text; what else MCP has can pass through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Content {
    /// Text; for tools of this program the JSON of `structuredContent`.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture.
    Image {
        /// Its bytes in Base64.
        data: String,
        /// Such as `image/png`.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// Its bytes in Base64.
        data: String,
        /// Such as `audio/wav`.
        mime_type: String,
    },
    /// A document that is sent along.
    Resource {
        /// The document.
        resource: TextResource,
    },
}

/// A document of text, as a result embeds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextResource {
    /// Names it.
    pub uri: String,
    /// Such as `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// What stands in it.
    pub text: String,
}

/// The result of `tools/call`. The tools of this program answer with one text block holding JSON, and the same data as
/// `structuredContent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// Exactly one text block, from the tools of this program.
    pub content: Vec<Content>,
    /// The same data as the text, as an object. The tools of this program always have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Document>,
    /// True when the tool failed.
    pub is_error: bool,
    /// What a program may want to know about the call itself, such as its audit receipt. Empty unless a door adds it.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Tool {
    /// The tool under its canonical dotted name.
    #[must_use]
    pub fn canonical(definition: &ToolDefinition) -> Self {
        Self {
            name: definition.name.as_str().to_owned(),
            title: definition.title.to_owned(),
            description: definition.description.to_owned(),
            input_schema: definition.input_schema.clone(),
            output_schema: Some(definition.output_schema.clone()),
            annotations: Annotations {
                title: None,
                read_only_hint: true,
                idempotent_hint: true,
                open_world_hint: true,
            },
        }
    }

    /// The tool under its wire name, as MCP clients see it. The canonical name is its title.
    #[must_use]
    pub fn on_the_wire(definition: &ToolDefinition) -> Self {
        let canonical = Self::canonical(definition);
        Self {
            name: definition.name.wire().to_owned(),
            title: canonical.name,
            annotations: Annotations { title: Some(canonical.title), ..canonical.annotations },
            ..canonical
        }
    }
}

impl CallToolResult {
    /// The result of a call that succeeded.
    #[must_use]
    pub fn success(output: ToolOutput) -> Self {
        Self::of(output.structured, false)
    }

    /// The result of a call that succeeded, its lists and texts cut until the whole result fits into `max_bytes` of JSON.
    /// The data stands in it twice, as text and as an object.
    #[must_use]
    pub fn fitting(output: ToolOutput, max_bytes: usize) -> Self {
        let fits = |result: &Self| budget::json_len(result) <= max_bytes;
        let mut result = Self::success(output);
        let mut room = max_bytes / 2;
        while !fits(&result) && room >= LEAST_ROOM {
            let mut data = result.structured_content.take().unwrap_or_default().into_map();
            budget::fit(&mut data, room);
            result = Self::of(data.into(), false);
            // Quotes and line breaks are escaped once more in the text; how many there are shows only afterwards.
            room = room / 4 * 3;
        }
        result
    }

    /// The result of a call that failed after it was let through.
    #[must_use]
    pub fn failure(error: &CallError) -> Self {
        let mut data = error.details();
        data.insert("error".to_owned(), json!(error.code().as_str()));
        data.insert("message".to_owned(), json!(error.message()));
        Self::of(data.into(), true)
    }

    /// The same result with one more entry of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: Value) -> Self {
        self.meta.insert(key.to_owned(), value);
        self
    }

    fn of(data: Document, is_error: bool) -> Self {
        let content = vec![Content::Text { text: data.json().to_owned() }];
        Self { content, structured_content: Some(data), is_error, meta: Map::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: M-01
    #[test]
    fn the_revision_is_pinned() {
        assert_eq!(MCP_PROTOCOL_VERSION, "2025-06-18");
    }

    // proves: AD-08
    #[test]
    fn a_result_fits_as_a_whole_however_much_is_escaped() {
        let stdout = "\"\n".repeat(100_000);
        let structured = json!({"stdout": stdout, "exitCode": 0, "truncated": false});
        let output = ToolOutput::new(structured.as_object().expect("an object").clone());
        let result = CallToolResult::fitting(output, budget::REST_BYTES);
        let size = serde_json::to_string(&result).expect("json").len();
        assert!(size <= budget::REST_BYTES && size > budget::REST_BYTES / 3, "{size}");
        assert_eq!(result.structured_content.expect("an object")["truncated"], true);
    }

    #[test]
    fn content_is_spelt_as_the_specification_spells_it() {
        for block in [
            json!({"type": "text", "text": "t"}),
            json!({"type": "image", "data": "aQ==", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "aQ==", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "u:1", "mimeType": "text/plain", "text": "t"}}),
        ] {
            let content: Content = serde_json::from_value(block.clone()).expect("content");
            assert_eq!(serde_json::to_value(content).expect("JSON"), block);
        }
    }

    // proves: M-05, M-06
    #[test]
    fn text_and_structured_content_carry_the_same_data() {
        let structured = json!({"stdout": "up 3 days", "exitCode": 0});
        let output = ToolOutput::new(structured.as_object().expect("an object").clone());

        for result in [CallToolResult::success(output), CallToolResult::failure(&CallError::TargetOffline)] {
            let Content::Text { text } = &result.content[0] else { panic!("text") };
            let from_text: Value = serde_json::from_str(text).expect("the text is JSON");
            assert_eq!(Some(from_text), result.structured_content.map(|data| Value::Object(data.into_map())));
        }
        assert!(CallToolResult::failure(&CallError::TargetOffline).is_error);
    }
}
