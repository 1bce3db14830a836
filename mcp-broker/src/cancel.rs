//! Stopping a call, and remembering why: the first reason wins.

use std::sync::{Arc, OnceLock};

use mcp_core::stream::StopReason;
use tokio_util::sync::CancellationToken;

/// Why a running call was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The caller went away, or closed the response.
    CallerLeft,
    /// Nobody opened the call's stream in time.
    StreamNotOpened,
    /// The last reader of the stream left before the end.
    StreamAbandoned,
    /// The stream reached its lifetime.
    StreamExpired,
    /// The server is going down.
    Shutdown,
}

impl CancelReason {
    /// The word that the audit row carries.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallerLeft => "caller_left",
            Self::StreamNotOpened => "stream_not_opened",
            Self::StreamAbandoned => "stream_abandoned",
            Self::StreamExpired => "stream_expired",
            Self::Shutdown => "shutting_down",
        }
    }
}

impl From<StopReason> for CancelReason {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::NotOpened => Self::StreamNotOpened,
            StopReason::Abandoned => Self::StreamAbandoned,
            StopReason::Expired => Self::StreamExpired,
        }
    }
}

/// A switch shared by everything that may stop one call. Cancelling after the end is harmless.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel {
    token: CancellationToken,
    reason: Arc<OnceLock<CancelReason>>,
}

impl Cancel {
    pub(crate) fn cancel(&self, reason: CancelReason) {
        // Setting fails when somebody was first; theirs is the reason that counts.
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Resolves with the reason once the call is stopped.
    pub(crate) async fn cancelled(&self) -> CancelReason {
        self.token.cancelled().await;
        self.reason.get().copied().unwrap_or(CancelReason::CallerLeft)
    }
}
