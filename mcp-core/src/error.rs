//! Everything that can be said no to, in one vocabulary (SPEC §4).
//!
//! Each error has a stable code and one sentence that a user can act on. Which HTTP status a code gets is written in
//! one place only, `http-api/src/error.rs`; nothing here knows HTTP. Upstream bodies, SQL and internal addresses never
//! enter a message.

use serde_json::{Map, Value, json};

use crate::id::TargetId;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The stable codes that clients program against. Additive only.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it stands in an answer.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

codes! {
    /// No credential, or none that is good.
    Unauthenticated = "unauthenticated",
    /// The role lacks the action.
    Forbidden = "forbidden",
    /// Too many calls.
    RateLimited = "rate_limited",
    /// Not one of the nine tools.
    ToolNotInRegistry = "tool_not_in_registry",
    /// Asks for a change.
    WriteRejected = "write_rejected",
    /// Switched off by the tenant.
    ToolDisabled = "tool_disabled",
    /// Not one of the six commands.
    CommandNotWhitelisted = "command_not_whitelisted",
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "invalid_arguments",
    /// No such target (or not yours).
    TargetNotFound = "target_not_found",
    /// The target's agent is not connected.
    TargetOffline = "target_offline",
    /// Several targets would do.
    AmbiguousTarget = "ambiguous_target",
    /// The upstream refuses our credential.
    UpstreamAuth = "upstream_auth",
    /// Our credential lacks a permission upstream.
    InsufficientScope = "insufficient_scope",
    /// The upstream's own rate limit.
    UpstreamRateLimited = "upstream_rate_limited",
    /// The upstream is broken.
    UpstreamError = "upstream_error",
    /// The upstream's answer is over the size limit.
    UpstreamTooLarge = "upstream_too_large",
    /// The upstream's answer makes no sense.
    UpstreamMalformed = "upstream_malformed",
    /// The upstream's certificate is not trusted.
    TlsUntrusted = "tls_untrusted",
    /// The upstream's certificate is not the pinned one.
    TlsPinMismatch = "tls_pin_mismatch",
    /// The egress policy refuses the host.
    EgressDenied = "egress_denied",
    /// The upstream or agent is too slow.
    UpstreamTimeout = "upstream_timeout",
    /// A configuration is refused; the steps say why.
    ConfigRefused = "config_refused",
    /// The Proxmox token lacks a role that the tools need.
    PveRoleMissing = "pve_role_missing",
    /// The Proxmox token may do more than read.
    PveOverprivileged = "pve_overprivileged",
    /// The audit log cannot be written.
    AuditUnavailable = "audit_unavailable",
    /// The database cannot be reached.
    DatabaseUnavailable = "database_unavailable",
    /// The agent went away during the call.
    AgentDisconnected = "agent_disconnected",
    /// The agent already runs four commands.
    AgentBusy = "agent_busy",
    /// The tenant has too many calls in flight.
    InFlightLimit = "in_flight_limit",
    /// The credential cannot be read.
    SecretUnavailable = "secret_unavailable",
    /// The state does not allow it.
    Conflict = "conflict",
    /// The tenant must keep one admin.
    LastAdmin = "last_admin",
    /// The request is not of the expected form.
    InvalidRequest = "invalid_request",
    /// No such thing.
    NotFound = "not_found",
    /// The method is not offered here.
    MethodNotAllowed = "method_not_allowed",
    /// The body is over 1 MiB.
    BodyTooLarge = "body_too_large",
    /// The body took too long to arrive.
    BodyTimeout = "body_timeout",
    /// The body is not JSON.
    UnsupportedMediaType = "unsupported_media_type",
    /// The Host header names a host that is not ours.
    HostRefused = "host_refused",
    /// The request comes from a web page that is not allowed.
    OriginRefused = "origin_refused",
    /// The call was cancelled.
    Cancelled = "cancelled",
    /// The reader of a stream fell too far behind.
    ClientTooSlow = "client_too_slow",
    /// The server is going down.
    ShuttingDown = "shutting_down",
    /// A bug.
    Internal = "internal",
}

/// A target that would have done, in the answer to a call that named none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: TargetId,
    /// Its name, which serves as `target_id` as well.
    pub name: String,
}

/// What an adapter can report. It never decides how a caller is answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// The upstream refuses our credential.
    #[error("the upstream refused the configured credential; an admin must renew it")]
    UpstreamAuth,
    /// The upstream says that our credential lacks a permission.
    #[error("the configured credential lacks the permission {permission}; grant it upstream")]
    InsufficientScope {
        /// The missing permission in the upstream's own words.
        permission: String,
    },
    /// The upstream's own rate limit; seconds until it is worth asking again.
    #[error("the upstream limits its rate; try again in {retry_after_sec} s")]
    UpstreamRateLimited {
        /// At least 1.
        retry_after_sec: u64,
    },
    /// The upstream failed; the text is ours, never the upstream's body.
    #[error("{0}")]
    Upstream(String),
    /// The answer is over the size limit.
    #[error("the upstream's answer is too large; ask for less")]
    TooLarge,
    /// The answer makes no sense.
    #[error("the upstream's answer is not what its API promises")]
    Malformed,
    /// The certificate is not trusted.
    #[error("the upstream's certificate is not trusted; give its CA or confirm its fingerprint")]
    TlsUntrusted,
    /// The certificate is not the pinned one.
    #[error(
        "the upstream's certificate is not the pinned one; confirm the new fingerprint if it was renewed"
    )]
    TlsPinMismatch,
    /// The egress policy refuses the host.
    #[error("the egress policy does not allow this host")]
    EgressDenied,
    /// The upstream or agent did not answer in time.
    #[error("no answer within the time limit of 10 s")]
    Timeout,
    /// The thing asked for is not there upstream.
    #[error("{0}")]
    NotFound(String),
    /// The agent is not connected.
    #[error("the target's agent is not connected")]
    Offline,
    /// The agent went away during the call.
    #[error("the agent disconnected before it answered; try again")]
    AgentDisconnected,
    /// The agent already runs four commands.
    #[error("the agent is running four commands already; try again when one has finished")]
    AgentBusy,
    /// The agent's own whitelist refused the command.
    #[error("the agent's own whitelist refuses this command")]
    RejectedByAgent,
}

/// Why a call was refused or failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The role, or the narrowing of the key, does not cover the action.
    #[error("your role does not allow this; ask an admin of the tenant")]
    Forbidden,
    /// Too many calls; whole seconds until the next one fits.
    #[error("too many calls; try again in {retry_after_sec} s")]
    RateLimited {
        /// At least 1.
        retry_after_sec: u64,
    },
    /// The tenant has its full number of calls in flight.
    #[error("the tenant has {limit} calls in flight; wait for one to finish")]
    InFlightLimit {
        /// The cap.
        limit: usize,
    },
    /// Not one of the nine tools.
    #[error("there is no such tool; GET /api/mcp/tools lists the tools you can call")]
    ToolNotInRegistry,
    /// The call asks for a change.
    #[error("this gateway is read-only and performs no writes")]
    WriteRejected,
    /// The tenant has switched the tool off.
    #[error("this tool is switched off for your tenant")]
    ToolDisabled,
    /// Not one of the six commands.
    #[error("{0}")]
    CommandNotWhitelisted(String),
    /// The arguments do not fit.
    #[error("{message}")]
    InvalidArguments {
        /// The offending field, as a JSON pointer without the leading slash; empty for the whole.
        field: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// No such target within the tenant and the grants.
    #[error("there is no such target; GET /api/targets lists yours")]
    TargetNotFound,
    /// The target's agent is not connected.
    #[error("the target is offline: its relay agent is not connected")]
    TargetOffline,
    /// Several targets would do.
    #[error("several targets would do; name one in target_id")]
    AmbiguousTarget(Vec<Candidate>),
    /// What the adapter reported.
    #[error(transparent)]
    Adapter(AdapterError),
    /// The audit log cannot be written, so nothing was called or nothing is released.
    #[error("the audit log cannot be written, so the call was stopped; try again shortly")]
    AuditUnavailable,
    /// The database cannot be reached.
    #[error("the database cannot be reached; try again shortly")]
    DatabaseUnavailable,
    /// The credential cannot be read.
    #[error("the target's credential cannot be read; an admin must check the secret store")]
    SecretUnavailable,
    /// The caller went away or asked to stop.
    #[error("the call was cancelled")]
    Cancelled,
    /// The server is going down.
    #[error("the server is shutting down; try again shortly")]
    ShuttingDown,
    /// A bug. The details are in the log under the request id.
    #[error("an internal error; the log has details under this request id")]
    Internal,
}

impl From<AdapterError> for CallError {
    fn from(error: AdapterError) -> Self {
        Self::Adapter(error)
    }
}

impl AdapterError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UpstreamAuth => ErrorCode::UpstreamAuth,
            Self::InsufficientScope { .. } => ErrorCode::InsufficientScope,
            Self::UpstreamRateLimited { .. } => ErrorCode::UpstreamRateLimited,
            Self::Upstream(_) => ErrorCode::UpstreamError,
            Self::TooLarge => ErrorCode::UpstreamTooLarge,
            Self::Malformed => ErrorCode::UpstreamMalformed,
            Self::TlsUntrusted => ErrorCode::TlsUntrusted,
            Self::TlsPinMismatch => ErrorCode::TlsPinMismatch,
            Self::EgressDenied => ErrorCode::EgressDenied,
            Self::Timeout => ErrorCode::UpstreamTimeout,
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::Offline => ErrorCode::TargetOffline,
            Self::AgentDisconnected => ErrorCode::AgentDisconnected,
            Self::AgentBusy => ErrorCode::AgentBusy,
            Self::RejectedByAgent => ErrorCode::CommandNotWhitelisted,
        }
    }
}

impl AdapterError {
    /// The error that `data` describes, as [`CallError::details`] with its code and message writes it into a result: the
    /// way back for whoever got it over MCP. `None` when it describes none that an adapter reports.
    #[must_use]
    pub fn from_data(data: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("error")?;
        let code = *ErrorCode::ALL.iter().find(|code| code.as_str() == name)?;
        Some(match code {
            ErrorCode::UpstreamAuth => Self::UpstreamAuth,
            ErrorCode::InsufficientScope => Self::InsufficientScope { permission: text("permission")? },
            ErrorCode::UpstreamRateLimited => {
                Self::UpstreamRateLimited { retry_after_sec: data.get("retryAfterSec")?.as_u64()? }
            }
            ErrorCode::UpstreamError => Self::Upstream(text("message")?),
            ErrorCode::UpstreamTooLarge => Self::TooLarge,
            ErrorCode::UpstreamMalformed => Self::Malformed,
            ErrorCode::TlsUntrusted => Self::TlsUntrusted,
            ErrorCode::TlsPinMismatch => Self::TlsPinMismatch,
            ErrorCode::EgressDenied => Self::EgressDenied,
            ErrorCode::UpstreamTimeout => Self::Timeout,
            ErrorCode::NotFound => Self::NotFound(text("message")?),
            ErrorCode::TargetOffline => Self::Offline,
            ErrorCode::AgentDisconnected => Self::AgentDisconnected,
            ErrorCode::AgentBusy => Self::AgentBusy,
            ErrorCode::CommandNotWhitelisted => Self::RejectedByAgent,
            _ => return None,
        })
    }
}

impl CallError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Forbidden => ErrorCode::Forbidden,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
            Self::InFlightLimit { .. } => ErrorCode::InFlightLimit,
            Self::ToolNotInRegistry => ErrorCode::ToolNotInRegistry,
            Self::WriteRejected => ErrorCode::WriteRejected,
            Self::ToolDisabled => ErrorCode::ToolDisabled,
            Self::CommandNotWhitelisted(_) => ErrorCode::CommandNotWhitelisted,
            Self::InvalidArguments { .. } => ErrorCode::InvalidArguments,
            Self::TargetNotFound => ErrorCode::TargetNotFound,
            Self::TargetOffline => ErrorCode::TargetOffline,
            Self::AmbiguousTarget(_) => ErrorCode::AmbiguousTarget,
            Self::Adapter(error) => error.code(),
            Self::AuditUnavailable => ErrorCode::AuditUnavailable,
            Self::DatabaseUnavailable => ErrorCode::DatabaseUnavailable,
            Self::SecretUnavailable => ErrorCode::SecretUnavailable,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::ShuttingDown => ErrorCode::ShuttingDown,
            Self::Internal => ErrorCode::Internal,
        }
    }

    /// One sentence that the caller can act on. Safe to show.
    #[must_use]
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// The fields that belong to this code beside `error` and `message`.
    #[must_use]
    pub fn details(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        match self {
            Self::RateLimited { retry_after_sec }
            | Self::Adapter(AdapterError::UpstreamRateLimited { retry_after_sec }) => {
                fields.insert("retryAfterSec".to_owned(), json!(retry_after_sec));
            }
            Self::InvalidArguments { field, .. } => {
                fields.insert("field".to_owned(), json!(field));
            }
            Self::AmbiguousTarget(candidates) => {
                let list = candidates.iter().map(|c| json!({"id": c.id, "name": c.name})).collect();
                fields.insert("candidates".to_owned(), Value::Array(list));
            }
            Self::Adapter(AdapterError::InsufficientScope { permission }) => {
                fields.insert("permission".to_owned(), json!(permission));
            }
            _ => {}
        }
        fields
    }
}
