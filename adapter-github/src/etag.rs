//! Answers that GitHub may confirm with 304: a confirmed answer costs none of the user's quota.
//!
//! What is kept is the small normalised answer, never a body. GitHub checks the token before it says 304, so a token
//! that lost a repository gets its 404 and not a stale answer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

/// Most answers that one adapter remembers.
const MAX_ENTRIES: usize = 64;
/// Most JSON that they hold together.
const MAX_BYTES: usize = 1024 * 1024;
/// No real tag is longer; a longer one would be sent back with every request.
const MAX_TAG_BYTES: usize = 200;

#[derive(Default)]
pub(crate) struct EtagCache {
    entries: Mutex<VecDeque<Entry>>,
}

struct Entry {
    key: String,
    tag: String,
    answer: Map<String, Value>,
    bytes: usize,
}

impl EtagCache {
    /// The tag to ask with, and the answer that it stands for.
    pub(crate) fn get(&self, key: &str) -> Option<(String, Map<String, Value>)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.key == key).map(|entry| (entry.tag.clone(), entry.answer.clone()))
    }

    /// Remembers an answer under its tag; the oldest ones make room.
    pub(crate) fn put(&self, key: String, tag: &str, answer: &Map<String, Value>) {
        let bytes = serde_json::to_vec(answer).map_or(usize::MAX, |json| json.len());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key);
        if tag.len() > MAX_TAG_BYTES || bytes > MAX_BYTES {
            return;
        }
        entries.push_back(Entry { key, tag: tag.to_owned(), answer: answer.clone(), bytes });
        while entries.len() > MAX_ENTRIES
            || entries.iter().map(|entry| entry.bytes).sum::<usize>() > MAX_BYTES
        {
            entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(text: String) -> Map<String, Value> {
        Map::from_iter([("text".to_owned(), json!(text))])
    }

    #[test]
    fn the_newest_answer_of_a_key_is_kept_and_the_oldest_keys_make_room() {
        let cache = EtagCache::default();
        for round in 0..1000 {
            cache.put(format!("k{round}"), "\"t\"", &answer(String::new()));
        }
        assert_eq!(cache.get("k0"), None);
        assert!(cache.get("k999").is_some());
        assert_eq!(cache.entries.lock().expect("lock").len(), MAX_ENTRIES);

        cache.put("k999".to_owned(), "\"u\"", &answer("new".to_owned()));
        assert_eq!(cache.get("k999"), Some(("\"u\"".to_owned(), answer("new".to_owned()))));
    }

    #[test]
    fn size_is_bounded_whatever_an_upstream_sends() {
        let cache = EtagCache::default();
        for round in 0..8 {
            cache.put(format!("k{round}"), "\"t\"", &answer("x".repeat(MAX_BYTES / 3)));
        }
        assert_eq!(cache.entries.lock().expect("lock").len(), 2);
        cache.put("k7".to_owned(), "\"t\"", &answer("x".repeat(MAX_BYTES)));
        assert_eq!(cache.get("k7"), None);
        cache.put("k6".to_owned(), &"t".repeat(300), &answer(String::new()));
        assert_eq!(cache.get("k6"), None);
    }
}
