//! What is written down: event types, bodies and the port that keeps them.
//!
//! The chain itself (canonical bytes, hashes, the writer) is the `audit` crate. Here is only the vocabulary that the
//! pipeline and the stores need to speak of it (SPEC §10).

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::id::{CorrelationId, EventId, InstanceId, TenantId};

macro_rules! event_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The kinds of event. There is no event outside this list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType {
            $($(#[$doc])* $variant,)*
        }

        impl EventType {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in the chain.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The kind of this name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
            }
        }
    };
}

event_types! {
    /// A tool call: `phase` is `started`, `finished` or `refused`.
    CapabilityInvoked = "adapter.capability_invoked",
    /// A call that the registry, the tenant's policy or the whitelist refused.
    WriteRejected = "adapter.write_rejected",
    /// An adapter was configured.
    AdapterConfigured = "adapter.configured",
    /// An adapter's configuration changed.
    AdapterUpdated = "adapter.updated",
    /// An adapter was removed.
    AdapterRemoved = "adapter.removed",
    /// A check of an adapter is about to dial out.
    AdapterTestStarted = "adapter.test_connection.started",
    /// A check of an adapter passed.
    AdapterTestSucceeded = "adapter.test_connection.succeeded",
    /// A check of an adapter failed.
    AdapterTestFailed = "adapter.test_connection.failed",
    /// A role lacked an action; at most one a minute per principal.
    RbacDenied = "rbac.denied",
    /// An API key was made.
    KeyCreated = "auth.key_created",
    /// An API key was revoked.
    KeyRevoked = "auth.key_revoked",
    /// An enrolment token was made.
    EnrolmentCreated = "relay.enrolment_created",
    /// An agent redeemed an enrolment token.
    RelayEnrolled = "relay.enrolled",
    /// Somebody presented a token that is not good.
    RelayEnrollFailed = "relay.enroll_failed",
    /// An agent registered over its link.
    RelayRegistered = "relay.registered",
    /// An agent could not prove its key.
    RelayAuthFailed = "relay.auth_failed",
    /// A newer link of the same agent took over.
    RelaySuperseded = "relay.superseded",
    /// An agent's link ended.
    RelayDisconnected = "relay.disconnected",
    /// A target's agent was revoked.
    RelayRevoked = "relay.revoked",
    /// A tenant was made.
    TenantCreated = "tenant.created",
    /// A tenant was suspended or resumed.
    TenantSuspended = "tenant.suspended",
    /// A suspended tenant was made active again.
    TenantResumed = "tenant.resumed",
    /// A tenant was deleted. Its chain stays.
    TenantDeleted = "tenant.deleted",
    /// Tools were switched off or on.
    ToolPolicyChanged = "tool_policy.changed",
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The body of an event. Each field is public or sensitive; a secret has no way in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    fields: Vec<(&'static str, Field)>,
}

/// How a field of a body is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// As it is.
    Public(Value),
    /// As a keyed hash under the tenant's key: equal values can be matched, none can be read.
    Sensitive(Value),
}

impl Body {
    /// An empty body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field that anyone who may read the log may read.
    #[must_use]
    pub fn public(mut self, name: &'static str, value: impl Serialize) -> Self {
        self.fields.push((name, Field::Public(to_value(value))));
        self
    }

    /// Adds a field that is hashed before it is stored.
    #[must_use]
    pub fn sensitive(mut self, name: &'static str, value: impl Serialize) -> Self {
        self.fields.push((name, Field::Sensitive(to_value(value))));
        self
    }

    /// The body as stored, with `hash` applied to the JSON of every sensitive field.
    pub fn into_stored(self, hash: impl Fn(&str) -> String) -> Map<String, Value> {
        let store = |field| match field {
            Field::Public(value) => value,
            Field::Sensitive(value) => Value::String(hash(&value.to_string())),
        };
        self.fields.into_iter().map(|(name, field)| (name.to_owned(), store(field))).collect()
    }
}

/// A value that cannot be JSON (a map with odd keys) is a programming error; it is kept visibly as null.
fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// How an event relates to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The row that must be committed before the first byte goes out. Exactly one outcome must follow.
    Intent {
        /// The call.
        correlation: CorrelationId,
        /// The process that owes the outcome.
        instance: InstanceId,
    },
    /// The row that closes an intent.
    Outcome {
        /// The call.
        correlation: CorrelationId,
    },
    /// A row on its own.
    Fact,
}

/// One event, before it has a place in the chain. The writer sets time and sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// Its own id; appending the same id twice is one event.
    pub id: EventId,
    /// The chain it belongs to.
    pub tenant: TenantId,
    /// What happened.
    pub event_type: EventType,
    /// The details.
    pub body: Body,
    /// Whether it opens or closes a call.
    pub link: Link,
}

/// Proof that an event is in the chain: its place and its hash. What it names is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The chain.
    pub tenant: TenantId,
    /// The place, from 1.
    pub seq: u64,
    /// The hash of the row, which covers every row before it.
    pub hash: [u8; 32],
}

impl fmt::Display for Receipt {
    /// The form of the `X-Audit-Receipt` header: `seq;hash`, the hash in lower-case hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};", self.seq)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why an event has no receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The log could not be written in time. An intent is not in the log, or will be closed as `interrupted`; an
    /// outcome is still owed and the writer keeps trying.
    #[error("the audit log could not be written in time")]
    Unavailable,
    /// The intent of this outcome is closed already (another process swept it up).
    #[error("the intent is closed already")]
    AlreadyClosed,
    /// The body cannot be stored (a NUL character). Nothing was queued.
    #[error("the event cannot be stored: {0}")]
    Refused(&'static str),
}

/// Keeps events in hash-chained order. An `Ok` means committed and durable, never merely queued.
///
/// Dropping the future of an intent withdraws it if it has not been sent; otherwise the writer closes it as
/// `interrupted`. Dropping the future of an outcome or a fact does not withdraw it.
#[async_trait]
pub trait AuditSink: Send + Sync {
    /// Appends one event and waits until it is durable, two seconds at the most.
    async fn append(&self, event: AuditEvent) -> Result<Receipt, AuditError>;

    /// Says that a state change has just committed its event beside itself (in the outbox), so that the event can move
    /// into the chain now rather than at the next look. A sink without an outbox has nothing to do.
    fn outbox_changed(&self) {}
}
