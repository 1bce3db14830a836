//! One normaliser for derived schemas: what leaves here stays inside the subset that every LLM API accepts.
//!
//! One schema with `$ref`, a type array or a foreign `format` makes some clients drop the whole tool list
//! (CASES C-Q16), so the rules are applied to every schema and a test holds all nine to them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Schema of a tool's arguments: an object that takes no other property than those it names.
pub(super) fn input<T: JsonSchema>() -> Value {
    let mut schema = derive::<T>();
    if let Value::Object(object) = &mut schema {
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

/// Schema of a tool's structured result: an open object.
pub(super) fn output<T: JsonSchema>() -> Value {
    derive::<T>()
}

fn derive<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    if let Value::Object(object) = &mut schema {
        // The root's title is the Rust type's name, and its description the type's documentation: neither is for a
        // client, which reads the tool's own.
        object.remove("title");
        object.remove("description");
    }
    schema
}

fn normalise(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            unwrap_nullable(object);
            flatten_documented_enum(object);
            object.remove("$schema");
            object.remove("format");
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            for (key, value) in object.iter_mut() {
                match key.as_str() {
                    // Inside `properties` the keys are names of fields, not words of the schema language.
                    "properties" => {
                        if let Value::Object(fields) = value {
                            fields.values_mut().for_each(normalise);
                        }
                    }
                    // Values, not schemas.
                    "enum" | "default" | "const" | "required" | "examples" => {}
                    _ => normalise(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An optional field is one that may be absent; that it may also be null is not worth a type array.
fn unwrap_nullable(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if types.len() == 1 {
            let only = types.remove(0);
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(branches)) = object.get_mut("anyOf") else { return };
    branches.retain(|branch| branch.get("type") != Some(&Value::from("null")));
    if branches.len() == 1
        && let Some(Value::Object(only)) = branches.pop()
    {
        object.remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

/// A Rust enum whose variants are documented is derived as `oneOf` constants; clients want a plain `enum`.
fn flatten_documented_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.get("oneOf") else { return };
    let mut words = Vec::new();
    for branch in branches {
        match (branch.get("const"), branch.get("enum")) {
            (Some(word), None) => words.push(word.clone()),
            (None, Some(Value::Array(several))) => words.extend(several.iter().cloned()),
            _ => return,
        }
    }
    if words.iter().all(Value::is_string) {
        object.remove("oneOf");
        object.insert("type".to_owned(), Value::from("string"));
        object.insert("enum".to_owned(), Value::Array(words));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::tool::catalogue;

    fn forbidden_words(schema: &Value, path: &str, found: &mut Vec<String>) {
        match schema {
            Value::Object(object) => {
                for (key, value) in object {
                    let here = format!("{path}/{key}");
                    let is_word = !path.ends_with("/properties");
                    let refused =
                        ["$schema", "$ref", "$defs", "oneOf", "anyOf", "allOf", "format", "nullable"];
                    if is_word && refused.contains(&key.as_str()) {
                        found.push(here.clone());
                    }
                    if is_word && key == "type" && !value.is_string() {
                        found.push(here.clone());
                    }
                    forbidden_words(value, &here, found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    if path.ends_with("/enum") && item.is_null() {
                        found.push(path.to_owned());
                    }
                    forbidden_words(item, path, found);
                }
            }
            _ => {}
        }
    }

    // proves: T-10, C-Q16
    #[test]
    fn every_schema_stays_in_the_subset_that_all_clients_accept() {
        for tool in catalogue() {
            let mut found = Vec::new();
            forbidden_words(&tool.input_schema, "", &mut found);
            forbidden_words(&tool.output_schema, "", &mut found);
            assert_eq!(found, Vec::<String>::new(), "{}", tool.name);
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            assert_eq!(tool.output_schema["type"], "object", "{}", tool.name);
            assert!(tool.output_schema.get("additionalProperties").is_none(), "{}", tool.name);
        }
    }

    #[test]
    fn every_argument_is_described_and_target_id_is_always_optional() {
        for tool in catalogue() {
            let properties = tool.input_schema["properties"].as_object().expect("properties");
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{} {name}", tool.name);
            }
            assert!(properties.contains_key("target_id"), "{}", tool.name);
            let required = tool.input_schema.get("required").and_then(Value::as_array);
            assert!(required.is_none_or(|names| !names.contains(&Value::from("target_id"))), "{}", tool.name);
        }
    }
}
