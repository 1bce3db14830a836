//! The ledger of a tenant: which sealed file is the current one of each name.
//!
//! A sealed file proves that we made it once, not that it is the latest. The ledger does: it is one sealed file, replaced
//! by one rename, so a write counts from that rename on, and an older file that is put back is not the one it lists.

use std::collections::{BTreeMap, HashSet};

use super::name::SecretName;

/// After so many writes of one tenant a random nonce could repeat (the bound is 2^32; half of it leaves room for writes
/// that were killed before they were counted). At one write a second that is 68 years away.
const MAX_GENERATION: u64 = 1 << 31;

/// The names of a tenant's secrets, and how often they changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    generation: u64,
    stamps: BTreeMap<String, String>,
}

impl Ledger {
    /// Reads what [`Ledger::to_bytes`] wrote. The generation lies beside it, in the header of the sealed file.
    pub(crate) fn from_bytes(generation: u64, bytes: &[u8]) -> Option<Self> {
        let stamps = serde_json::from_slice(bytes).ok()?;
        Some(Self { generation, stamps })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.stamps).expect("a map of texts is JSON")
    }

    /// How many writes there have been.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts one more write; `None` when the keys of this tenant have sealed as often as they may.
    pub(crate) fn advance(&mut self) -> Option<u64> {
        if self.generation >= MAX_GENERATION {
            return None;
        }
        self.generation += 1;
        Some(self.generation)
    }

    /// The stamp of the current file of a name.
    pub(crate) fn stamp(&self, name: &SecretName) -> Option<&str> {
        self.stamps.get(name.as_str()).map(String::as_str)
    }

    /// Names the current file of a name.
    pub(crate) fn set(&mut self, name: &SecretName, stamp: String) {
        self.stamps.insert(name.as_str().to_owned(), stamp);
    }

    /// Strikes a name out. Answers whether it was there.
    pub(crate) fn strike(&mut self, name: &SecretName) -> bool {
        self.stamps.remove(name.as_str()).is_some()
    }

    /// The stamps of all files that are current.
    pub(crate) fn current(&self) -> HashSet<&str> {
        self.stamps.values().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_reads_back() {
        let name = SecretName::parse("byom").unwrap();
        let mut ledger = Ledger::default();
        assert_eq!(ledger.advance(), Some(1));
        ledger.set(&name, "00ff".to_owned());
        let again = Ledger::from_bytes(1, &ledger.to_bytes()).unwrap();
        assert_eq!(again, ledger);
        assert!(again.current().contains("00ff"));
        assert!(ledger.strike(&name) && !ledger.strike(&name) && ledger.current().is_empty());
        assert_eq!(Ledger::from_bytes(1, b"[]"), None);
    }

    // proves: C-J06
    #[test]
    fn the_keys_of_a_tenant_wear_out_before_a_nonce_repeats() {
        let mut ledger = Ledger::from_bytes(MAX_GENERATION - 1, b"{}").unwrap();
        assert_eq!(ledger.advance(), Some(MAX_GENERATION));
        assert_eq!(ledger.advance(), None);
        assert_eq!(ledger.generation(), MAX_GENERATION);
    }
}
