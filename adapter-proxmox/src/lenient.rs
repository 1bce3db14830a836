//! Values whose JSON type changed between releases: numbers that were texts before Proxmox VE 7, flags that are 0 or 1.
//!
//! A value that cannot be read counts as absent, so that one odd field does not cost the whole answer. What an answer
//! cannot do without is demanded where it is used.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A number, or a text that spells one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Number {
    /// Null, missing, or not a number.
    #[default]
    Absent,
    /// Zero or more, without a fraction.
    Whole(u64),
    /// Any other finite number.
    Float(f64),
}

/// A text, or a number where a text is meant (a guest may be named `100`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text(Option<String>);

/// Floats hold every integer up to this one.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    pub(crate) fn whole(self) -> Option<u64> {
        match self {
            Self::Whole(number) => Some(number),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within the range where floats are exact, and not negative"
            )]
            Self::Float(number) if (0.0..=EXACT).contains(&number) => Some(number as u64),
            Self::Float(_) | Self::Absent => None,
        }
    }

    pub(crate) fn float(self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "a load or a count of CPUs is far below 2^53")]
            Self::Whole(number) => Some(number as f64),
            Self::Float(number) => Some(number),
            Self::Absent => None,
        }
    }

    /// Perl's truth: anything but 0 and absence.
    pub(crate) fn flag(self) -> Option<bool> {
        self.float().map(|number| number != 0.0)
    }

    fn of_float(number: f64) -> Self {
        if number.is_finite() { Self::Float(number) } else { Self::Absent }
    }

    fn of_text(text: &str) -> Self {
        let text = text.trim();
        text.parse().map(Self::Whole).or_else(|_| text.parse().map(Self::of_float)).unwrap_or_default()
    }
}

impl Text {
    pub(crate) fn into_option(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty())
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text that spells one")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "only negative numbers arrive here, and none is kept whole"
        )]
        let float = number as f64;
        Ok(u64::try_from(number).map_or(Number::Float(float), Number::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number::of_float(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Number, E> {
        Ok(Number::Whole(u64::from(flag)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(Number::of_text(text))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Number, A::Error> {
        skip_seq(seq).map(|()| Number::Absent)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Number, A::Error> {
        skip_map(map).map(|()| Number::Absent)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(Some(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Text, A::Error> {
        skip_seq(seq).map(|()| Text(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
        skip_map(map).map(|()| Text(None))
    }
}

fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(json: &str) -> Number {
        serde_json::from_str(json).expect("read")
    }

    // proves: P-08, C-N13
    #[test]
    fn numbers_are_read_from_numbers_and_from_texts() {
        for json in ["100", "\"100\"", "\" 100 \"", "100.0", "1e2", "\"1e2\""] {
            assert_eq!(number(json).whole(), Some(100), "{json}");
            assert_eq!(number(json).float(), Some(100.0), "{json}");
        }
        assert_eq!(number("\"0.25\"").float(), Some(0.25));
        assert_eq!(number("18446744073709551615").whole(), Some(u64::MAX));
    }

    #[test]
    fn what_is_no_number_is_absent() {
        for json in ["null", "\"\"", "\"nan\"", "\"inf\"", "\"abc\"", "[1, [2]]", "{\"a\": {\"b\": 1}}"] {
            assert_eq!(number(json), Number::Absent, "{json}");
        }
        for json in ["-1", "\"-1\"", "1e300"] {
            assert_eq!(number(json).whole(), None, "{json}");
        }
    }

    #[test]
    fn flags_are_zero_or_one_in_any_type() {
        for (json, flag) in [("1", true), ("\"1\"", true), ("true", true), ("0", false), ("\"0\"", false)] {
            assert_eq!(number(json).flag(), Some(flag), "{json}");
        }
        assert_eq!(number("null").flag(), None);
    }

    #[test]
    fn a_name_may_look_like_a_number() {
        for (json, text) in
            [("\"db\"", Some("db")), ("100", Some("100")), ("null", None), ("[]", None), ("\"\"", None)]
        {
            let read: Text = serde_json::from_str(json).expect("read");
            assert_eq!(read.into_option().as_deref(), text, "{json}");
        }
    }
}
