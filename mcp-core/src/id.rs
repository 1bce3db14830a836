//! One id type per kind of thing, so that a target cannot be passed where a tenant is meant.
//!
//! Ids are made outside this crate (it has neither a clock nor a source of randomness).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;
use uuid::Uuid;

/// The text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind} id")]
pub struct InvalidId {
    kind: &'static str,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that is known to name a thing of this kind.
            #[must_use]
            pub const fn from_uuid(id: Uuid) -> Self {
                Self(id)
            }

            /// The UUID underneath, for storage.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(text).map(Self).map_err(|_| InvalidId { kind: $kind })
            }
        }
    };
}

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Ulid);

        impl $name {
            /// Wraps a ULID that is known to name a thing of this kind.
            #[must_use]
            pub const fn from_ulid(id: Ulid) -> Self {
                Self(id)
            }

            /// The ULID underneath.
            #[must_use]
            pub const fn as_ulid(&self) -> Ulid {
                self.0
            }

            /// The same 128 bits as a UUID, which is how the database stores them.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                Uuid::from_u128(self.0.0)
            }

            /// Back from the stored form.
            #[must_use]
            pub const fn from_uuid(id: Uuid) -> Self {
                Self(Ulid(id.as_u128()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts exactly the 26 characters that [`fmt::Display`] prints.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Ulid::from_string(text)
                    .ok()
                    .filter(|id| id.to_string() == text)
                    .map(Self)
                    .ok_or(InvalidId { kind: $kind })
            }
        }
    };
}

uuid_id!(
    /// A tenant: the wall that nothing crosses. The nil id names the system's own audit chain.
    TenantId, "tenant"
);
uuid_id!(
    /// Who asks: a person or a service of one tenant.
    PrincipalId, "principal"
);
uuid_id!(
    /// One API key.
    KeyId, "key"
);
uuid_id!(
    /// Something that can be looked at: a host, a cluster, a forge.
    TargetId, "target"
);
uuid_id!(
    /// One enrolled relay agent.
    AgentId, "agent"
);
uuid_id!(
    /// One run of the control plane. Audit intents carry it, so that a later run can tell which were left open.
    InstanceId, "instance"
);
ulid_id!(
    /// One tool call, from the request to the end of its stream. 26 characters of Crockford base 32.
    CorrelationId, "correlation"
);
ulid_id!(
    /// One audit event. Appending the same id twice is one event.
    EventId, "event"
);
ulid_id!(
    /// One request at a door, echoed as `X-Request-Id`.
    RequestId, "request"
);

impl TenantId {
    /// The chain of events that belong to no tenant (start-up, failed authentication).
    pub const SYSTEM: Self = Self(Uuid::nil());
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: E-05
    #[test]
    fn a_correlation_id_is_26_characters_of_crockford_base_32() {
        let id = CorrelationId::from_ulid(Ulid(0x0193_8a5e_0000_1234_5678_9abc_def0_1234));
        let text = id.to_string();

        assert_eq!(text.len(), 26);
        assert!(text.bytes().all(|b| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(&b)));
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(CorrelationId::from_uuid(id.as_uuid()), id);
    }

    #[test]
    fn text_that_only_resembles_an_id_is_refused() {
        for text in ["", "not-an-id", "01JE0000000000000000000000x", "01je0000000000000000000000"] {
            assert!(text.parse::<CorrelationId>().is_err(), "{text:?} was accepted");
        }
        assert!("0193".parse::<TenantId>().is_err());
    }
}
