//! Strict JSON for what clients send: a duplicate key is an error, never "the last one wins".
//!
//! Two readers that pick different halves of `{"role":"viewer","role":"admin"}` disagree about what was asked, so
//! neither half is accepted (CASES C-B02). Depth is bounded by serde_json (128 levels).

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why a text was not taken as JSON of the wanted shape. The text says where, and never quotes the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON at all, too deep, or a key stands twice in one object.
    #[error("{0}")]
    Syntax(String),
    /// JSON, but not of the shape that was asked for: a field is missing, unknown or of the wrong type.
    #[error("{0}")]
    Shape(String),
}

/// Reads a value, refusing duplicate keys at every depth.
///
/// # Errors
/// [`JsonError::Syntax`] when the text is not exactly one JSON value without duplicate keys.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).map_err(|e| JsonError::Syntax(e.to_string()))?;
    reader.end().map_err(|e| JsonError::Syntax(e.to_string()))?;
    Ok(value)
}

/// Reads a typed value, refusing duplicate keys at every depth. The type decides about unknown fields.
///
/// # Errors
/// [`JsonError::Syntax`] as [`parse`]; [`JsonError::Shape`] when the value does not fit `T`.
pub fn parse_as<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    T::deserialize(parse(bytes)?).map_err(|e| JsonError::Shape(e.to_string()))
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if map.insert(key, value).is_some() {
                return Err(serde::de::Error::custom("an object has the same key twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    // proves: C-B02
    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"a":1}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax(_))), "{text}");
        }
        assert_eq!(parse(br#"{"a":{"a":1}}"#), Ok(json!({"a": {"a": 1}})));
    }

    #[test]
    fn trailing_text_and_deep_nesting_are_refused() {
        assert!(parse(b"{} {}").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse(b"").is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_serde_json_writes_is_read_back_alike(value in any_json()) {
            prop_assert_eq!(parse(value.to_string().as_bytes()), Ok(value));
        }
    }
}
