//! Enough of JSON Schema to hold a result against the schema of its tool.

use serde_json::Value;

/// Panics unless the value has the type, the required fields, the fields of the right type and the items of the schema.
pub(crate) fn assert_fits(schema: &Value, value: &Value, at: &str) {
    let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{at}: no type in {schema}"));
    let has_kind = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("{at}: a type that no tool has: {other}"),
    };
    assert!(has_kind, "{at}: {value} is no {kind}");
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().expect("a name");
        assert!(value.get(name).is_some(), "{at}: {name} is missing in {value}");
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let described = schema["properties"].get(name);
        assert_fits(described.unwrap_or_else(|| panic!("{at}: nobody promised {name}")), field, name);
    }
    for item in value.as_array().into_iter().flatten() {
        assert_fits(&schema["items"], item, at);
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value} is none of {words:?}");
    }
    if let Some(least) = schema["minimum"].as_i64() {
        assert!(
            value.as_f64().is_some_and(|number| number >= least as f64),
            "{at}: {value} is under {least}"
        );
    }
}
