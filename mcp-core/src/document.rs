//! A JSON object that is written once, however often it is sent.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An object that is shared and not changed: a clone costs a count. Its JSON is written when it is first asked for and kept,
/// since a result is sent twice over (as text and as data), measured, and sent again from a cache.
///
/// It reads like the [`Map`] it holds. It is meant for `serde_json` only; another format would see its text.
#[derive(Clone, Default)]
pub struct Document(Arc<Inner>);

#[derive(Default)]
struct Inner {
    object: Map<String, Value>,
    json: OnceLock<Box<RawValue>>,
}

impl Document {
    /// Its JSON, without white space.
    #[must_use]
    pub fn json(&self) -> &str {
        self.raw().get()
    }

    /// The object, copied only if it is held elsewhere, too.
    #[must_use]
    pub fn into_map(self) -> Map<String, Value> {
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.object.clone(), |inner| inner.object)
    }

    fn raw(&self) -> &RawValue {
        // An object of text keys and JSON values has always a JSON form.
        self.0.json.get_or_init(|| serde_json::value::to_raw_value(&self.0.object).unwrap_or_default())
    }
}

impl From<Map<String, Value>> for Document {
    fn from(object: Map<String, Value>) -> Self {
        Self(Arc::new(Inner { object, json: OnceLock::new() }))
    }
}

impl Deref for Document {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0.object
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.object == other.0.object
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.object.fmt(f)
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        json!({"b": [1, {"c": "a \"quoted\" one\n"}], "a": null})
            .as_object()
            .expect("an object")
            .clone()
            .into()
    }

    #[test]
    fn it_is_the_same_as_text_as_a_value_and_inside_of_others() {
        let whole = json!({"b": [1, {"c": "a \"quoted\" one\n"}], "a": null});
        let document = document();
        assert_eq!(document.json(), whole.to_string());
        assert_eq!(serde_json::to_value(&document).expect("JSON"), whole);
        let wrapped = serde_json::to_string(&json!({"in": document})).expect("JSON");
        assert_eq!(serde_json::from_str::<Value>(&wrapped).expect("JSON"), json!({"in": whole}));
        assert_eq!(serde_json::from_str::<Document>(document.json()).expect("JSON"), document);
        assert_eq!(document["b"][0], 1);
    }

    #[test]
    fn a_clone_is_not_touched_by_what_becomes_of_the_other() {
        let kept = document();
        let mut map = kept.clone().into_map();
        map.insert("more".to_owned(), json!(1));
        assert!(!kept.contains_key("more"));
        assert_eq!(document().into_map(), *kept);
    }
}
