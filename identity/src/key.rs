//! API keys: `cck_` and 256 random bits. The database keeps a SHA-256, so a key can be shown exactly once.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

const PREFIX: &str = "cck_";
const RANDOM_BYTES: usize = 32;

/// A key in the clear. It prints as `[REDACTED]`, and is wiped when dropped.
pub struct ApiKey(Zeroizing<String>);

/// The text cannot be a key of ours; nothing needs to be looked up to know that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an API key of this product")]
pub struct MalformedKey;

impl ApiKey {
    /// Makes a fresh key.
    ///
    /// # Errors
    /// When the system has no randomness to offer.
    pub fn generate() -> Result<Self, Unspecified> {
        let mut bytes = Zeroizing::new([0_u8; RANDOM_BYTES]);
        SystemRandom::new().fill(bytes.as_mut_slice())?;
        Ok(Self(Zeroizing::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes.as_slice())))))
    }

    /// Reads a key that a client presented.
    ///
    /// # Errors
    /// [`MalformedKey`] when it is not of the form that [`ApiKey::generate`] makes.
    pub fn parse(text: &str) -> Result<Self, MalformedKey> {
        let encoded = text.strip_prefix(PREFIX).ok_or(MalformedKey)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| MalformedKey)?;
        if bytes.len() == RANDOM_BYTES {
            Ok(Self(Zeroizing::new(text.to_owned())))
        } else {
            Err(MalformedKey)
        }
    }

    /// What the database keeps. Looking a key up by its digest compares nothing secret byte by byte (C-J12).
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        out
    }

    /// The key in the clear, for the one answer that shows it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_reads_back_and_two_differ() {
        let (one, two) = (ApiKey::generate().expect("random"), ApiKey::generate().expect("random"));
        assert_eq!(ApiKey::parse(one.reveal()).expect("a key").digest(), one.digest());
        assert_ne!(one.digest(), two.digest());
        assert!(!format!("{one:?}").contains(&one.reveal()[4..]));
    }

    #[test]
    fn anything_else_is_refused_without_a_lookup() {
        let key = ApiKey::generate().expect("random");
        let key = key.reveal();
        let cut = &key[..key.len() - 1];
        let longer = format!("{key}A");
        let spaced = format!(" {key}");
        for text in ["", "cck_", "ghp_abc", cut, &longer, &spaced, &key.to_uppercase()] {
            assert!(ApiKey::parse(text).is_err(), "{text}");
        }
    }
}
