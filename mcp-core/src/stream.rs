//! The port of call streams: the events of one call, buffered and replayed to those who may see them (SPEC §6).

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use crate::id::{CorrelationId, PrincipalId, TenantId};

/// The names of events on a call's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEventKind {
    /// The MCP result.
    ToolResult,
    /// The call has ended well; nothing follows.
    Done,
    /// The call has ended badly; nothing follows.
    Error,
}

impl CallEventKind {
    /// The name after `event:`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToolResult => "tool_result",
            Self::Done => "done",
            Self::Error => "error",
        }
    }

    /// Whether nothing can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Error => true,
            Self::ToolResult => false,
        }
    }
}

/// One event of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEvent {
    /// Its place, from 0.
    pub seq: u64,
    /// What it is.
    pub kind: CallEventKind,
    /// One line of JSON.
    pub data: Arc<str>,
}

/// Who may attach: the invoking principal of the same tenant, and nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The principal.
    pub principal: PrincipalId,
}

/// Why the streams ask for a call to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Nobody opened the stream within 30 s.
    NotOpened,
    /// The last reader left before the end.
    Abandoned,
    /// The stream reached its lifetime of 60 s.
    Expired,
}

/// Stops the call behind a stream. Called at most once per reason, never while a lock is held.
pub type Stop = Arc<dyn Fn(StopReason) + Send + Sync>;

/// No such stream, as far as this caller can know: never opened, gone, or somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such call")]
pub struct UnknownCall;

/// What a reader receives: events, and at last perhaps the reason why it was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event of the call.
    Event(CallEvent),
    /// The reader let too much pile up; nothing follows.
    TooSlow,
}

/// Buffers events of running calls and replays them.
#[async_trait]
pub trait CallStreams: Send + Sync {
    /// Opens the stream of a call that is about to run.
    async fn open(&self, call: CorrelationId, owner: StreamOwner, stop: Stop);

    /// Adds an event. Events of a stream that is gone are dropped.
    async fn publish(&self, call: CorrelationId, kind: CallEventKind, data: String);

    /// Attaches a reader, replaying everything after `after` (everything when absent). The stream ends after the terminal
    /// event; dropping it is leaving.
    async fn attach(
        &self,
        call: CorrelationId,
        owner: StreamOwner,
        after: Option<u64>,
    ) -> Result<BoxStream<'static, Delivery>, UnknownCall>;
}
