//! Events that anybody can cause are written at most once a minute per cause, so that a loop cannot flood the chain.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);
/// Causes remembered before those of past windows are cleared out.
const CLEAR_AT: usize = 1024;

/// Remembers which causes have had their event of this minute.
#[derive(Debug)]
pub struct OncePerMinute<K> {
    last: Mutex<HashMap<K, Instant>>,
}

impl<K> Default for OncePerMinute<K> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<K: Eq + Hash> OncePerMinute<K> {
    /// Whether this is the cause's first event of its minute, and so is to be written.
    pub fn is_first(&self, cause: K) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= CLEAR_AT {
            last.retain(|_, at| now.duration_since(*at) < WINDOW);
        }
        match last.get(&cause) {
            Some(at) if now.duration_since(*at) < WINDOW => false,
            Some(_) | None => {
                last.insert(cause, now);
                true
            }
        }
    }
}
