//! An entry in a JSON configuration. All else in the text stays as it is, comments and spaces included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::edit::EditError;

/// What clients take in such a file, and no more: comments and a comma too many.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Keys of an entry that say how a server is reached. Those of another way would contradict ours.
const TRANSPORT: [&str; 8] =
    ["type", "command", "args", "env", "url", "serverUrl", "headers", "headersHelper"];

/// Keys and values, in the order in which they are written.
pub(super) type Members = Vec<(&'static str, Value)>;

/// The entry, and where it goes.
pub(super) struct JsonEdit {
    /// Key of the object that holds the servers.
    pub(super) section: &'static str,
    /// Name of the entry.
    pub(super) name: String,
    /// The entry.
    pub(super) entry: Members,
    /// What the client asks its user for (VS Code), known by its `id`.
    pub(super) input: Option<Members>,
}

impl JsonEdit {
    /// The text with the entry in it. Settings of the entry that do not say how the server is reached are kept.
    pub(super) fn apply(&self, text: &str) -> Result<String, EditError> {
        let root = CstRootNode::parse(text, &OPTIONS)
            .map_err(|error| EditError::Syntax { language: "JSON", reason: error.to_string() })?;
        let object = root.object_value_or_create();
        let object = object.ok_or_else(|| EditError::Shape("the root".to_owned(), "an object"))?;
        if let Some(input) = &self.input {
            put_input(&object, input)?;
        }
        let servers = match find(&object, self.section)? {
            Some(property) => as_object(&property, self.section)?,
            None => as_object(&object.append(self.section, CstInputValue::Object(Vec::new())), self.section)?,
        };
        match find(&servers, &self.name)? {
            Some(property) => {
                let entry = as_object(&property, &self.name)?;
                for key in TRANSPORT {
                    let is_ours = self.entry.iter().any(|(ours, _)| *ours == key);
                    if let (false, Some(other)) = (is_ours, find(&entry, key)?) {
                        other.remove();
                    }
                }
                set(&entry, &self.entry)?;
            }
            None => {
                servers.append(&self.name, object_of(&self.entry));
            }
        }
        Ok(root.to_string())
    }
}

fn put_input(object: &CstObject, input: &Members) -> Result<(), EditError> {
    let inputs = match find(object, "inputs")? {
        Some(property) => property,
        None => object.append("inputs", CstInputValue::Array(Vec::new())),
    };
    let inputs = inputs.array_value();
    let inputs = inputs.ok_or_else(|| EditError::Shape("inputs".to_owned(), "a list"))?;
    let id = input.iter().find(|(key, _)| *key == "id").map(|(_, value)| value);
    for known in inputs.elements().iter().filter_map(jsonc_parser::cst::CstNode::as_object) {
        if find(&known, "id")?.and_then(|id| id.value()?.to_serde_value()).as_ref() == id {
            return set(&known, input);
        }
    }
    inputs.append(object_of(input));
    Ok(())
}

/// Sets what differs, so that a second time changes nothing.
fn set(object: &CstObject, members: &Members) -> Result<(), EditError> {
    for (key, value) in members {
        match find(object, key)? {
            Some(property) => {
                if property.value().and_then(|value| value.to_serde_value()).as_ref() != Some(value) {
                    property.set_value(input_of(value));
                }
            }
            None => {
                object.append(key, input_of(value));
            }
        }
    }
    Ok(())
}

fn find(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, EditError> {
    let all = object.properties();
    let mut found = all.into_iter().filter(|property| property.decoded_name().as_deref() == Some(name));
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(EditError::Twice(name.to_owned())),
        (first, None) => Ok(first),
    }
}

fn as_object(property: &CstObjectProp, name: &str) -> Result<CstObject, EditError> {
    property.object_value().ok_or_else(|| EditError::Shape(name.to_owned(), "an object"))
}

fn object_of(members: &Members) -> CstInputValue {
    let pairs = members.iter().map(|(key, value)| ((*key).to_owned(), input_of(value)));
    CstInputValue::Object(pairs.collect())
}

fn input_of(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input_of).collect()),
        Value::Object(pairs) => {
            CstInputValue::Object(pairs.iter().map(|(key, value)| (key.clone(), input_of(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edit() -> JsonEdit {
        JsonEdit {
            section: "servers",
            name: "coreci".to_owned(),
            entry: vec![("url", json!("http://c/mcp")), ("headers", json!({"A": "\"\\\u{1}é"}))],
            input: Some(vec![("id", json!("k")), ("password", json!(true))]),
        }
    }

    #[test]
    fn what_others_wrote_is_kept_to_the_letter() {
        let text = "// mine\n{\n\t\"a\" : [1,2], // odd\n\t\"servers\": {\n\t\t/* other */ \"x\": {\"url\":\"y\",},\n\t},\n}\n";
        let edited = edit().apply(text).expect("edited");
        for kept in ["// mine\n", "\t\"a\" : [1,2], // odd\n", "/* other */ \"x\": {\"url\":\"y\",}"] {
            assert!(edited.contains(kept), "{edited}");
        }
        assert_eq!(edit().apply(&edited).expect("again"), edited);
        let known = "{\"servers\": {\"coreci\": {\"command\": \"old\", \"disabled\": true, \"url\": \"u\"}}, \"inputs\": [{\"id\": \"k\"}]}";
        let edited: Value = serde_json::from_str(&edit().apply(known).expect("edited")).expect("JSON");
        let entry = json!({"disabled": true, "url": "http://c/mcp", "headers": {"A": "\"\\\u{1}é"}});
        assert_eq!(edited, json!({"servers": {"coreci": entry}, "inputs": [{"id": "k", "password": true}]}));
    }

    #[test]
    fn an_empty_text_becomes_plain_json() {
        for text in ["", " \n", "{}", "{ }\n"] {
            let edited = edit().apply(text).expect("edited");
            let value: Value = serde_json::from_str(&edited).expect("JSON");
            assert_eq!(value["servers"]["coreci"]["url"], "http://c/mcp", "{edited}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_refused_without_repeating_it() {
        let deep = "[".repeat(100_000);
        for text in [
            "{",
            "[]",
            "null",
            "{\"servers\": []}",
            "{\"servers\": {\"coreci\": \"s3cret\"}}",
            &deep,
            "{'servers': {}}",
            "{\"servers\": {}, \"servers\": {}}",
            "{\"inputs\": {}}",
            "{\"s3cret\" 1}",
            "{} s3cret",
        ] {
            let refused = edit().apply(text).expect_err(text).to_string();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}
