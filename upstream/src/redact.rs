//! Removes our own credential from what an upstream sends back (CASES C-N15).

use mcp_core::secret::SecretValue;
use serde_json::{Map, Value};

const MARK: &str = "[REDACTED]";

/// Replaces the secret wherever it stands in a text.
pub fn redact(data: &mut Map<String, Value>, secret: &SecretValue) {
    #[expect(clippy::disallowed_methods, reason = "it is looked for, to be taken out")]
    let secret = secret.reveal();
    if !secret.is_empty() {
        data.values_mut().for_each(|value| redact_value(value, secret));
    }
}

fn redact_value(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) if text.contains(secret) => *text = text.replace(secret, MARK),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, secret)),
        Value::Object(fields) => fields.values_mut().for_each(|field| redact_value(field, secret)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves: C-N15
    #[test]
    fn an_echoed_credential_is_taken_out_at_any_depth() {
        let secret = SecretValue::new("canary".to_owned());
        let mut data = json!({"a": "x canary y", "b": [{"c": "canary"}, 1, null]});
        redact(data.as_object_mut().expect("object"), &secret);
        assert_eq!(data, json!({"a": "x [REDACTED] y", "b": [{"c": "[REDACTED]"}, 1, null]}));
    }
}
