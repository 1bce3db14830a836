//! Fitting a result into the size that a door allows (SPEC §5): lists and texts are cut, and the result says so.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Most JSON that a result may hold on REST.
pub const REST_BYTES: usize = 512 * 1024;

/// Most JSON that a result may hold on MCP surfaces unless a setting says otherwise: a model reads it.
pub const MCP_BYTES: usize = 32 * 1024;

/// Cuts the longest list or text of `data` until its JSON fits into `max_bytes`, marking `truncated`, `omitted` (for
/// lists) and a `hint`. Data that fits is left alone.
pub fn fit(data: &mut Map<String, Value>, max_bytes: usize) {
    let mut size = json_len(data);
    while size > max_bytes {
        let longest = data
            .iter()
            .filter(|(key, value)| key.as_str() != "hint" && (value.is_array() || value.is_string()))
            .map(|(key, value)| (value.to_string().len(), key.clone()))
            .max();
        let Some((length, key)) = longest else { return };
        if length <= 2 {
            return;
        }
        let excess = size - max_bytes;
        let dropped = match data.get_mut(&key) {
            Some(Value::Array(items)) => cut_list(items, length, excess),
            Some(Value::String(text)) => {
                cut_text(text, length, excess);
                0
            }
            _ => 0,
        };
        data.insert("truncated".to_owned(), json!(true));
        if dropped > 0 {
            let before = data.get("omitted").and_then(Value::as_u64).unwrap_or(0);
            data.insert("omitted".to_owned(), json!(before + dropped));
        }
        data.entry("hint")
            .or_insert_with(|| json!("the result was cut to fit; ask for fewer items or lines"));
        size = json_len(data);
    }
}

/// How many bytes of JSON this is; counted and not kept.
pub(crate) fn json_len(value: &impl Serialize) -> usize {
    let mut counted = Counter(0);
    serde_json::to_writer(&mut counted, value).map_or(usize::MAX, |()| counted.0)
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the share of items that should fit, and at least one item fewer than before.
fn cut_list(items: &mut Vec<Value>, length: usize, excess: usize) -> u64 {
    let before = items.len();
    let keep = before.saturating_mul(length.saturating_sub(excess)) / length;
    items.truncate(keep.min(before.saturating_sub(1)));
    (before - items.len()) as u64
}

/// Keeps the share of text that should fit, cut at a character boundary, and always less than before.
fn cut_text(text: &mut String, length: usize, excess: usize) {
    let mut keep = text.len().saturating_mul(length.saturating_sub(excess)) / length;
    keep = keep.min(text.len().saturating_sub(1));
    while !text.is_char_boundary(keep) {
        keep -= 1;
    }
    text.truncate(keep);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let mut data = json!({"runs": [1, 2, 3], "truncated": false}).as_object().expect("object").clone();
        let before = data.clone();
        fit(&mut data, 1000);
        assert_eq!(data, before);
    }

    proptest! {
        #[test]
        fn whatever_is_cut_fits_and_says_so(
            rows in prop::collection::vec(".{0,40}", 0..200),
            text in ".{0,2000}",
            max in 200_usize..2000,
        ) {
            let count = rows.len() as u64;
            let mut data = Map::new();
            data.insert("rows".to_owned(), json!(rows));
            data.insert("stdout".to_owned(), json!(text));
            let fitted_before = json_len(&data) <= max;
            fit(&mut data, max);

            prop_assert!(json_len(&data) <= max);
            prop_assert_eq!(data.get("truncated").is_none(), fitted_before);
            let left = data["rows"].as_array().expect("rows").len() as u64;
            let omitted = data.get("omitted").and_then(Value::as_u64).unwrap_or(0);
            prop_assert_eq!(left + omitted, count);
        }
    }
}
