//! Answers of inventory tools, kept for a minute (SPEC §5). The registry's own flag decides what is kept, never a hint.
//!
//! A key holds the tenant, the target and its configuration's version, so an answer can reach nobody else and does not
//! outlive a change. Of several equal calls at once, one goes out and the others wait for it, each under its own deadline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::adapter::Route;
use mcp_core::id::{TargetId, TenantId};
use mcp_core::tool::{ToolName, ToolOutput, catalogue};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// How long an answer is good.
const KEEP_FOR: Duration = Duration::from_secs(60);
/// Answers that are kept before old ones are cleared out. Beyond it nothing new is kept.
const MOST: usize = 10_000;

/// What makes two calls equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    tenant: TenantId,
    target: TargetId,
    config_version: u64,
    tool: ToolName,
    args: String,
}

/// The kept answer of one key, locked by whoever fetches it.
type Slot = Arc<tokio::sync::Mutex<Option<Kept>>>;

#[derive(Debug)]
struct Kept {
    at: Instant,
    output: ToolOutput,
    /// As it was last handed out, with its age; for a second everybody gets the same one, which is written once.
    aged: Option<(u64, ToolOutput)>,
}

impl Kept {
    fn with_age(&mut self) -> ToolOutput {
        let age = self.at.elapsed().as_secs();
        match &self.aged {
            Some((known, aged)) if *known == age => aged.clone(),
            _ => {
                let mut data = self.output.structured.clone().into_map();
                data.insert("cachedAgeSec".to_owned(), json!(age));
                let aged = ToolOutput::with_facts(data, self.output.facts.clone());
                self.aged = Some((age, aged.clone()));
                aged
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct InventoryCache {
    slots: Mutex<HashMap<Key, (Instant, Slot)>>,
}

/// An answer, and whether it came from the cache.
pub(crate) struct Answer {
    pub(crate) output: ToolOutput,
    pub(crate) cached: bool,
}

impl Key {
    /// The key of a call, if its tool is one whose answers are kept.
    pub(crate) fn of(route: &Route, tool: ToolName, args: &Map<String, Value>) -> Option<Self> {
        let is_inventory = catalogue().iter().any(|known| known.name == tool && known.is_inventory);
        // Arguments are flat; sorted by name, equal ones have equal text. The target stands in the key already.
        let mut sorted: Vec<_> = args.iter().filter(|(name, _)| *name != "target_id").collect();
        sorted.sort_by_key(|(name, _)| *name);
        is_inventory.then(|| Self {
            tenant: route.target.tenant,
            target: route.target.id,
            config_version: route.config_version,
            tool,
            args: json!(sorted).to_string(),
        })
    }
}

impl InventoryCache {
    /// The kept answer, or a fetched one. An error is not kept: the next caller tries again.
    pub(crate) async fn get<E>(
        &self,
        key: Key,
        fetch: impl Future<Output = Result<ToolOutput, E>>,
    ) -> Result<Answer, E> {
        let Some(slot) = self.slot(key) else {
            return Ok(Answer { output: fetch.await?, cached: false });
        };
        let mut kept = slot.lock().await;
        if let Some(kept) = kept.as_mut()
            && kept.at.elapsed() < KEEP_FOR
        {
            return Ok(Answer { output: kept.with_age(), cached: true });
        }
        let output = fetch.await?;
        *kept = Some(Kept { at: Instant::now(), output: output.clone(), aged: None });
        Ok(Answer { output, cached: false })
    }

    fn slot(&self, key: Key) -> Option<Slot> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST {
            slots.retain(|_, (touched, slot)| {
                Arc::strong_count(slot) > 1 || now.duration_since(*touched) < KEEP_FOR
            });
        }
        if slots.len() >= MOST && !slots.contains_key(&key) {
            return None;
        }
        let (touched, slot) = slots.entry(key).or_insert_with(|| (now, Slot::default()));
        *touched = now;
        Some(Arc::clone(slot))
    }
}
