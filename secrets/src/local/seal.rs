//! The sealed format: AES-256-GCM under a key of the tenant, bound to what the file is and whose.

use mcp_core::id::TenantId;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::master::{KEY_ID_LEN, KeyId, MasterKey};
use super::name::hex;

const MAGIC: &[u8; 4] = b"CCIS";
const FORMAT: u8 = 1;
const GENERATION_LEN: usize = 8;
/// Magic, format and kind; the key id; the generation. All of it is authenticated.
const BOUND_LEN: usize = MAGIC.len() + 2 + KEY_ID_LEN + GENERATION_LEN;
const HEADER_LEN: usize = BOUND_LEN + NONCE_LEN;
const TAG_LEN: usize = 16;
/// By how much a sealed file is longer than what it holds.
pub(crate) const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// What a sealed file holds. Each kind has keys of its own, so that one cannot pass for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Secret = 1,
    Ledger = 2,
    Check = 3,
}

/// What a sealed file is and whose. It is not stored, so a file that is moved does not open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) kind: Kind,
    pub(crate) tenant: TenantId,
    pub(crate) name: &'a str,
}

/// A sealed file, and the stamp that tells it from every other one.
pub(crate) struct Sealed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stamp: String,
}

/// What was in a sealed file.
pub(crate) struct Opened {
    pub(crate) plaintext: Zeroizing<Vec<u8>>,
    pub(crate) generation: u64,
    pub(crate) stamp: String,
}

/// Why a file cannot be sealed or opened. Nothing here tells how far an attempt to open came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    /// Too short, or without our magic.
    #[error("not a sealed file")]
    NotSealed,
    /// A later version of the program wrote it.
    #[error("sealed file of format {0}, and this program knows format {FORMAT}")]
    UnknownFormat(u8),
    /// Another master key sealed it.
    #[error("sealed with master key {sealed_with}, and the one given is {given}")]
    OtherKey { sealed_with: KeyId, given: KeyId },
    /// Damaged, forged, or a file of another tenant, name or kind.
    #[error("sealed file is damaged, or was moved here from elsewhere")]
    NotAuthentic,
    /// The operating system gave none.
    #[error("no randomness to seal with")]
    NoRandomness,
    /// Longer than the cipher takes.
    #[error("too long to be sealed")]
    TooLong,
}

/// Seals under a fresh random nonce.
pub(crate) fn seal(
    master: &MasterKey,
    binding: &Binding<'_>,
    generation: u64,
    plaintext: &[u8],
) -> Result<Sealed, SealError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;

    let mut bytes = Vec::with_capacity(OVERHEAD + plaintext.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[FORMAT, binding.kind as u8]);
    bytes.extend_from_slice(master.id().as_bytes());
    bytes.extend_from_slice(&generation.to_be_bytes());
    let aad = binding.aad(&bytes);
    bytes.extend_from_slice(&nonce);
    let stamp = stamp(&bytes);

    // A buffer of its own, wiped should the cipher fail half-way; then its content is ciphertext.
    let mut body = Zeroizing::new(Vec::with_capacity(plaintext.len() + TAG_LEN));
    body.extend_from_slice(plaintext);
    binding
        .key(master)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&aad), &mut *body)
        .map_err(|_| SealError::TooLong)?;
    bytes.extend_from_slice(&body);
    Ok(Sealed { bytes, stamp })
}

/// Opens what [`seal`] made, if it is of this kind, tenant and name.
pub(crate) fn open(master: &MasterKey, binding: &Binding<'_>, file: &[u8]) -> Result<Opened, SealError> {
    if file.len() < OVERHEAD || !file.starts_with(MAGIC) {
        return Err(SealError::NotSealed);
    }
    let (header, body) = file.split_at(HEADER_LEN);
    let (bound, nonce) = header.split_at(BOUND_LEN);
    let format = bound[MAGIC.len()];
    if format != FORMAT {
        return Err(SealError::UnknownFormat(format));
    }
    let (rest, generation) = bound.split_at(BOUND_LEN - GENERATION_LEN);
    let sealed_with = KeyId::from_slice(&rest[MAGIC.len() + 2..]).ok_or(SealError::NotSealed)?;
    if sealed_with != master.id() {
        return Err(SealError::OtherKey { sealed_with, given: master.id() });
    }
    if bound[MAGIC.len() + 1] != binding.kind as u8 {
        return Err(SealError::NotAuthentic);
    }
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::NotSealed)?;
    let mut plaintext = Zeroizing::new(body.to_vec());
    let length = binding
        .key(master)
        .open_in_place(nonce, Aad::from(binding.aad(bound)), &mut plaintext)
        .map_err(|_| SealError::NotAuthentic)?
        .len();
    plaintext.truncate(length);
    let generation = generation.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Opened { plaintext, generation, stamp: stamp(header) })
}

impl Binding<'_> {
    /// The part of the header that is bound, then tenant and name. Only the last has no fixed length, so two different
    /// bindings never give the same bytes.
    fn aad(&self, bound: &[u8]) -> Vec<u8> {
        [bound, self.tenant.as_uuid().as_bytes(), self.name.as_bytes()].concat()
    }

    fn key(&self, master: &MasterKey) -> LessSafeKey {
        let key = master.tenant_key(self.kind, self.tenant);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_slice()).expect("AES-256 takes 32 bytes"))
    }
}

/// Generation and nonce: two attempts to write the same generation still differ.
fn stamp(header: &[u8]) -> String {
    hex(&header[BOUND_LEN - GENERATION_LEN..HEADER_LEN])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uuid::Uuid;

    use super::*;

    const PLAINTEXT: &[u8] = b"s3cret";

    fn master() -> MasterKey {
        MasterKey::from_text(&"5a".repeat(32)).unwrap()
    }

    fn binding(tenant: u128, name: &str, kind: Kind) -> Binding<'_> {
        Binding { kind, tenant: TenantId::from_uuid(Uuid::from_u128(tenant)), name }
    }

    fn mine() -> Binding<'static> {
        binding(1, "proxmox:pve-1", Kind::Secret)
    }

    #[test]
    fn what_was_sealed_opens_again() {
        let sealed = seal(&master(), &mine(), 7, PLAINTEXT).unwrap();
        assert_eq!(sealed.bytes.len(), PLAINTEXT.len() + OVERHEAD);
        let opened = open(&master(), &mine(), &sealed.bytes).unwrap();
        assert_eq!((opened.plaintext.as_slice(), opened.generation), (PLAINTEXT, 7));
        assert_eq!(opened.stamp, sealed.stamp);
    }

    // proves: C-J05
    #[test]
    fn a_flipped_bit_or_a_missing_byte_anywhere_is_noticed() {
        let sealed = seal(&master(), &mine(), 7, PLAINTEXT).unwrap().bytes;
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&master(), &mine(), &forged).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(open(&master(), &mine(), &sealed[..length]).is_err(), "cut to {length}");
        }
        assert!(open(&master(), &mine(), &[sealed.as_slice(), &[0]].concat()).is_err(), "longer");
    }

    // proves: C-J05
    #[test]
    fn tenant_name_kind_and_key_are_bound() {
        let sealed = seal(&master(), &mine(), 7, PLAINTEXT).unwrap().bytes;
        let elsewhere = [
            binding(2, "proxmox:pve-1", Kind::Secret),
            binding(1, "proxmox:pve-2", Kind::Secret),
            binding(1, "proxmox:pve-1", Kind::Ledger),
        ];
        for elsewhere in elsewhere {
            assert_eq!(
                open(&master(), &elsewhere, &sealed).err(),
                Some(SealError::NotAuthentic),
                "{elsewhere:?}"
            );
        }
        let other = MasterKey::from_text(&"5b".repeat(32)).unwrap();
        assert!(matches!(open(&other, &mine(), &sealed).err(), Some(SealError::OtherKey { .. })));
    }

    /// A forged key id gets past the friendly message, not past the cipher.
    #[test]
    fn another_key_with_our_id_opens_nothing() {
        let other = MasterKey::from_text(&"5b".repeat(32)).unwrap();
        let mut forged = seal(&other, &mine(), 7, PLAINTEXT).unwrap().bytes;
        forged[MAGIC.len() + 2..][..KEY_ID_LEN].copy_from_slice(master().id().as_bytes());
        assert_eq!(open(&master(), &mine(), &forged).err(), Some(SealError::NotAuthentic));
    }

    // proves: C-J06
    #[test]
    fn a_hundred_thousand_seals_share_no_nonce() {
        let master = master();
        let nonces: HashSet<_> = (0..100_000)
            .map(|_| seal(&master, &mine(), 7, b"").unwrap().bytes[BOUND_LEN..HEADER_LEN].to_vec())
            .collect();
        assert_eq!(nonces.len(), 100_000);
    }

    // proves: C-J06
    #[test]
    fn each_tenant_and_kind_has_keys_of_its_own() {
        let tenants = (0..1000).map(|n| TenantId::from_uuid(Uuid::from_u128(n)));
        let keys: HashSet<_> = tenants
            .flat_map(|tenant| [Kind::Secret, Kind::Ledger, Kind::Check].map(|kind| (kind, tenant)))
            .map(|(kind, tenant)| master().tenant_key(kind, tenant).to_vec())
            .collect();
        assert_eq!(keys.len(), 3000);
    }

    /// What version 1 means does not change. This file was computed from the table in the README with another
    /// implementation of HKDF and AES-GCM, and has to open for ever.
    #[test]
    fn a_file_of_the_first_version_opens() {
        const FILE: &str = "434349530101d1a13be757c239870000000000000007000102030405060708090a0b\
                            f03137154ae7a6c39938e2693c9773c9afa549f468e7";
        let digits = |at| u8::from_str_radix(&FILE[at..at + 2], 16).unwrap();
        let file: Vec<u8> = (0..FILE.len()).step_by(2).map(digits).collect();
        let opened = open(&master(), &mine(), &file).unwrap();
        assert_eq!((opened.plaintext.as_slice(), opened.generation), (PLAINTEXT, 7));
    }
}
