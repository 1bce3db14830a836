//! Numbers as forges and the proxies before them write them: as numbers, or as text.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a whole number that is not negative, from a number or from digits in a string.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Number)?.ok_or_else(|| D::Error::custom("null in place of a number"))
}

/// As [`number`], where null and absence are answers too.
pub fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(Number)
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number that is not negative")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        u64::try_from(value).map(Some).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        value.trim_ascii().parse().map(Some).map_err(E::custom)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Row {
        #[serde(deserialize_with = "number")]
        id: u64,
        #[serde(default, deserialize_with = "optional_number")]
        total: Option<u64>,
    }

    // proves: C-N13
    #[test]
    fn numbers_may_stand_as_text_and_optional_ones_may_be_null() {
        let read = |text| serde_json::from_str::<Row>(text).map(|row| (row.id, row.total));
        assert_eq!(read(r#"{"id": 7}"#).expect("row"), (7, None));
        assert_eq!(read(r#"{"id": "7", "total": null}"#).expect("row"), (7, None));
        assert_eq!(read(r#"{"id": " 7", "total": "9"}"#).expect("row"), (7, Some(9)));
        for text in
            [r#"{"id": null}"#, r#"{"id": -1}"#, r#"{"id": 1.5}"#, r#"{"id": "x"}"#, r#"{"id": []}"#, "{}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
