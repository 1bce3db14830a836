//! What the writer needs to know.

use std::fmt;
use std::time::Duration;

use mcp_core::id::InstanceId;

/// Settings of [`PostgresAudit`](super::PostgresAudit).
#[derive(Clone)]
pub struct AuditConfig {
    /// The master of the tenants' pseudonym keys. With another one, old and new pseudonyms no longer match.
    pub pseudonym_key: [u8; 32],
    /// This run of the control plane. Each run has its own; the sweeper closes what other ones have left open.
    pub instance: InstanceId,
    /// How many actors write, each over a connection of its own. A tenant always belongs to the same one.
    pub shards: usize,
    /// How many events may wait per shard. Outcomes have as much room again, for themselves.
    pub queue: usize,
    /// How long an append waits before it fails with `Unavailable`.
    pub deadline: Duration,
}

impl AuditConfig {
    /// The usual settings: two shards of 4,096 events, two seconds.
    #[must_use]
    pub fn new(pseudonym_key: [u8; 32], instance: InstanceId) -> Self {
        Self { pseudonym_key, instance, shards: 2, queue: 4096, deadline: Duration::from_secs(2) }
    }
}

impl fmt::Debug for AuditConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditConfig")
            .field("instance", &self.instance)
            .field("shards", &self.shards)
            .field("queue", &self.queue)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
