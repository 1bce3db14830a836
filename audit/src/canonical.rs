//! The bytes that are hashed. Pure; pinned by golden vectors.
//!
//! `hash = SHA-256(prev_hash ‖ canonical)`, and `canonical` is, in this order:
//!
//! | bytes | what |
//! |---|---|
//! | 16 | the domain tag `coreci/audit/v1` and a NUL |
//! | 16 | tenant |
//! | 8 | sequence number, big-endian, from 1 |
//! | 8 | time, microseconds since 1970, big-endian |
//! | 4 + n | event type |
//! | 4 + 26 | event id, as ULID text |
//! | 4 + n | body, exactly as stored |
//!
//! Each part is of fixed size or carries its length, so no two different events share their bytes.

use mcp_core::id::{EventId, TenantId};
use ring::digest::{Context, SHA256};

/// What separates these hashes from all other uses of SHA-256.
pub const DOMAIN: &[u8; 16] = b"coreci/audit/v1\0";

/// The hash before the first row of every chain.
pub const GENESIS: [u8; 32] = [0; 32];

/// One event in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The chain.
    pub tenant: TenantId,
    /// The place, from 1.
    pub seq: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub at_us: u64,
    /// The kind of event.
    pub event_type: &'a str,
    /// The event's own id.
    pub event_id: EventId,
    /// The stored body.
    pub body: &'a [u8],
}

impl Fields<'_> {
    /// The canonical bytes, for those who want to look at them; [`Fields::hash`] does not need them in one piece.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(16 + 16 + 8 + 8 + 12 + 26 + self.event_type.len() + self.body.len());
        self.feed(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// The hash of a row that follows one with the hash `prev`.
    #[must_use]
    pub fn hash(&self, prev: &[u8; 32]) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(prev);
        self.feed(|part| context.update(part));
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }

    fn feed(&self, mut part: impl FnMut(&[u8])) {
        part(DOMAIN);
        part(self.tenant.as_uuid().as_bytes());
        part(&self.seq.to_be_bytes());
        part(&self.at_us.to_be_bytes());
        let mut text = [0; ulid::ULID_LEN];
        let event_id = self.event_id.as_ulid().array_to_str(&mut text).as_bytes();
        for bytes in [self.event_type.as_bytes(), event_id, self.body] {
            let length = u32::try_from(bytes.len()).expect("Postgres and the export reader stop below 4 GiB");
            part(&length.to_be_bytes());
            part(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ulid::Ulid;
    use uuid::Uuid;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn fields<'a>(seq: u64, at_us: u64, event_type: &'a str, id: u128, body: &'a [u8]) -> Fields<'a> {
        Fields {
            tenant: TenantId::from_uuid(Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)),
            seq,
            at_us,
            event_type,
            event_id: EventId::from_ulid(Ulid(id)),
            body,
        }
    }

    // proves: AU-01
    #[test]
    fn the_bytes_are_as_committed() {
        let first = fields(
            1,
            1_764_556_620_123_456,
            "tenant.created",
            0x0193_8a5e_0000_1234_5678_9abc_def0_1234,
            b"{}",
        );
        assert_eq!(hex(&first.canonical()), GOLDEN_CANONICAL);
        let hash = first.hash(&GENESIS);
        assert_eq!(hex(&hash), GOLDEN_HASHES[0]);

        let body = r#"{"userId":"Zoë"}"#.as_bytes();
        let second = fields(2, 1_764_556_620_123_456, "adapter.capability_invoked", u128::MAX, body);
        let hash = second.hash(&hash);
        assert_eq!(hex(&hash), GOLDEN_HASHES[1]);

        let third = fields(u64::MAX, u64::MAX, "", 0, b"");
        assert_eq!(hex(&third.hash(&hash)), GOLDEN_HASHES[2]);
    }

    type Tuple = (u128, u64, u64, String, u128, Vec<u8>);

    fn tuple() -> impl Strategy<Value = Tuple> {
        // Few letters and small numbers, so that parts often differ only in where one ends and the next begins.
        let text = "[ab\0]{0,4}";
        let body = proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0)], 0..5);
        (0..2u128, 0..3u64, 0..3u64, text, 0..3u128, body)
    }

    fn bytes_of((tenant, seq, at_us, event_type, id, body): &Tuple) -> Vec<u8> {
        let tenant = TenantId::from_uuid(Uuid::from_u128(*tenant));
        let event_id = EventId::from_ulid(Ulid(*id));
        Fields { tenant, seq: *seq, at_us: *at_us, event_type, event_id, body }.canonical()
    }

    proptest! {
        // proves: C-K13, AU-01
        #[test]
        fn distinct_events_have_distinct_bytes(one in tuple(), other in tuple()) {
            prop_assert_eq!(one == other, bytes_of(&one) == bytes_of(&other));
        }
    }

    // proves: C-K13
    #[test]
    fn a_letter_cannot_move_across_a_boundary() {
        let one = fields(1, 1, "ab", 1, b"c").canonical();
        let other = fields(1, 1, "a", 1, b"bc").canonical();
        assert_ne!(one, other);
    }

    // Computed by an independent program (Python's hashlib and struct).
    const GOLDEN_CANONICAL: &str = "\
        636f726563692f61756469742f76310000112233445566778899aabbccddeeff0000000000000001000644dada874d40\
        0000000e74656e616e742e637265617465640000001a30314a453535573030303238543543593454514b46463034484d\
        000000027b7d";
    const GOLDEN_HASHES: [&str; 3] = [
        "0bf73c3b9bb718771347c1da6bb21319e8263573f0bc2730402522e485e69760",
        "f8befa07d722aabd68bbdd93aeee82936a9322855fe864fa5d67a4dfd59d901d",
        "e78ed22fa88b2a70a22edcfc78e645d3125f186468c2652da86f27cb167cdf28",
    ];
}
