//! Keyed hashes for sensitive fields: equal values of one tenant can be matched, none can be read, and nothing can be
//! matched between tenants.

use std::fmt;

use mcp_core::id::TenantId;
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::hmac;

use crate::hex;

/// How a stored pseudonym begins; 64 lower-case hexadecimal digits follow.
pub const PREFIX: &str = "hmac-sha256:";

const SALT: &[u8] = b"coreci/audit/pseudonym/v1";

/// Derives a key per tenant and hashes with it.
pub(crate) struct Pseudonyms {
    master: Prk,
}

impl Pseudonyms {
    pub(crate) fn new(master: &[u8; 32]) -> Self {
        Self { master: Salt::new(HKDF_SHA256, SALT).extract(master) }
    }

    /// The pseudonym of a value, given as JSON text.
    pub(crate) fn of(&self, tenant: TenantId, json: &str) -> String {
        let tag = hmac::sign(&self.key(tenant), json.as_bytes());
        format!("{PREFIX}{}", hex::encode(tag.as_ref()))
    }

    fn key(&self, tenant: TenantId) -> hmac::Key {
        let tenant = tenant.as_uuid();
        let info = [tenant.as_bytes().as_slice()];
        let key = self.master.expand(&info, hmac::HMAC_SHA256).expect("32 bytes are within HKDF's limit");
        hmac::Key::from(key)
    }
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pseudonyms(..)")
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    // proves: AU-11
    #[test]
    fn values_match_within_a_tenant_and_a_key_only() {
        let (one, other) = (Pseudonyms::new(&[1; 32]), Pseudonyms::new(&[2; 32]));
        let (acme, globex) =
            (TenantId::from_uuid(Uuid::from_u128(1)), TenantId::from_uuid(Uuid::from_u128(2)));

        let secret = one.of(acme, "\"db-password\"");
        assert_eq!(secret, one.of(acme, "\"db-password\""));
        assert_ne!(secret, one.of(globex, "\"db-password\""));
        assert_ne!(secret, other.of(acme, "\"db-password\""));
        assert_ne!(secret, one.of(acme, "\"db-passwore\""));
    }

    // Computed by an independent program (Python's hmac).
    #[test]
    fn the_derivation_is_as_committed() {
        let acme = TenantId::from_uuid(Uuid::from_u128(1));
        assert_eq!(
            Pseudonyms::new(&[1; 32]).of(acme, "\"x\""),
            "hmac-sha256:e381f07b9722d21739680addc17761d7d7b446a73bcbff0a8d859137d202e44f"
        );
    }
}
