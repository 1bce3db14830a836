//! The master key: where it comes from, and the keys that are derived from it.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use mcp_core::id::TenantId;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::check::sealed_state_in;
use super::files::{
    FileError, bits_of_others, failed, lock_exclusive, make_private_dir, read_open, write_durably,
};
use super::name::hex;
use super::seal::Kind;

const KEY_LEN: usize = 32;
/// Long enough for the key in hexadecimal between generous white space.
const MAX_FILE_LEN: usize = 1024;
const DOMAIN: &[u8] = b"coreci/secrets/v1";

pub(crate) const KEY_ID_LEN: usize = 8;

/// The one key that all sealed secrets hang on. It does not print and is wiped when dropped.
///
/// It cannot be compared either, so that nobody compares it byte by byte:
///
/// ```compile_fail,E0369
/// # use secrets::MasterKey;
/// fn same(a: MasterKey, b: MasterKey) -> bool { a == b }
/// ```
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; KEY_LEN]>);

/// Tells master keys apart without telling anything of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; KEY_ID_LEN]);

/// Why there is no master key. Nothing here quotes what was read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file is not there, and it must not be made because secrets are sealed with the key that it held.
    #[error(
        "the master key {} is missing, and secrets sealed with it are in {}: put the key back from where it is kept; \
         without it they cannot be read by anybody, and to begin anew move that directory away",
        path.display(), dir.display()
    )]
    Missing {
        /// Where the key was expected.
        path: PathBuf,
        /// Where the sealed secrets are.
        dir: PathBuf,
    },
    /// Others than the owner can read or write the file.
    #[error("others can reach the master key {}: run 'chmod 600' on it, and replace it if they may have read it", .0.display())]
    Exposed(PathBuf),
    /// The file is no regular file.
    #[error("the master key {} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Neither of the forms that a key has.
    #[error(
        "the master key has to be 64 hexadecimal digits, or in a file also 32 random bytes ('openssl rand -hex 32' makes one)"
    )]
    Malformed,
    /// The file cannot be read or made.
    #[error("the master key could not be read or made")]
    File(#[from] FileError),
    /// The operating system gave none.
    #[error("no randomness to make a master key of")]
    NoRandomness,
}

impl MasterKey {
    /// Reads a key from a file that only its owner can read: 64 hexadecimal digits, or 32 random bytes.
    ///
    /// # Errors
    /// [`KeyError`]: the file is missing, within the reach of others, or holds something else.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let mut file = File::open(path).map_err(failed("read", path))?;
        // Of the open file, so that nobody exchanges it between the question and the reading.
        let metadata = file.metadata().map_err(failed("read", path))?;
        if !metadata.is_file() {
            return Err(KeyError::NotAFile(path.to_owned()));
        }
        if bits_of_others(&metadata) != 0 {
            return Err(KeyError::Exposed(path.to_owned()));
        }
        let bytes = read_open(&mut file, MAX_FILE_LEN).map_err(failed("read", path))?;
        if bytes.len() == KEY_LEN {
            return Self::from_raw(&bytes);
        }
        Self::from_text(std::str::from_utf8(&bytes).map_err(|_| KeyError::Malformed)?)
    }

    /// Reads a key from the text of a setting: 64 hexadecimal digits, with or without white space around them.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_LEN {
            return Err(KeyError::Malformed);
        }
        let mut key = Zeroizing::new([0; KEY_LEN]);
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Self::from_bytes(key)
    }

    /// Reads the key at `path`. Makes one if there is none and nothing is sealed in `dir`, the directory that
    /// [`LocalConfig`](super::LocalConfig) names.
    ///
    /// # Errors
    /// As [`MasterKey::from_file`], and [`KeyError::Missing`] when making one would hide that the right one is gone.
    pub fn load_or_create(path: &Path, dir: &Path) -> Result<Self, KeyError> {
        make_private_dir(dir)?;
        // The lock that opening takes too: of two processes that start at once, one makes the key.
        let _lock = lock_exclusive(dir)?;
        match Self::from_file(path) {
            Err(KeyError::File(error)) if error.is_not_found() => {}
            found => return found,
        }
        if sealed_state_in(dir)? {
            return Err(KeyError::Missing { path: path.to_owned(), dir: dir.to_owned() });
        }
        let mut key = Zeroizing::new([0; KEY_LEN]);
        SystemRandom::new().fill(key.as_mut_slice()).map_err(|_| KeyError::NoRandomness)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make_private_dir(parent)?;
        }
        let text = Zeroizing::new(hex(key.as_slice()) + "\n");
        write_durably(path, text.as_bytes())?;
        Self::from_bytes(key)
    }

    /// Names the key in messages and in sealed files.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let mut id = [0; KEY_ID_LEN];
        self.derive(DOMAIN, &[b"key-id"], &mut id);
        KeyId(id)
    }

    /// The key under which one kind of file of one tenant is sealed.
    pub(crate) fn tenant_key(&self, kind: Kind, tenant: TenantId) -> Zeroizing<[u8; KEY_LEN]> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let salt = [DOMAIN, self.id().as_bytes()].concat();
        // Each part has one length, so two different questions never become the same bytes.
        self.derive(&salt, &[b"tenant", &[kind as u8], tenant.as_uuid().as_bytes()], key.as_mut_slice());
        key
    }

    fn derive(&self, salt: &[u8], info: &[&[u8]], out: &mut [u8]) {
        let extracted = Salt::new(HKDF_SHA256, salt).extract(self.0.as_slice());
        let expanded = extracted.expand(info, Length(out.len()));
        expanded.and_then(|okm| okm.fill(out)).expect("HKDF-SHA256 gives up to 8160 bytes");
    }

    fn from_raw(bytes: &[u8]) -> Result<Self, KeyError> {
        // A passphrase, or hexadecimal of half a key. Among random keys, one in 10^13 looks like that.
        if bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            return Err(KeyError::Malformed);
        }
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(bytes);
        Self::from_bytes(key)
    }

    fn from_bytes(key: Zeroizing<[u8; KEY_LEN]>) -> Result<Self, KeyError> {
        // A file that was allocated and never written.
        if key.iter().fold(0, |sum, byte| sum | byte) == 0 {
            return Err(KeyError::Malformed);
        }
        Ok(Self(key))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl KeyId {
    pub(crate) fn as_bytes(&self) -> &[u8; KEY_ID_LEN] {
        &self.0
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// How many bytes HKDF is to give.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn digit(ascii: u8) -> Result<u8, KeyError> {
    match ascii {
        b'0'..=b'9' => Ok(ascii - b'0'),
        b'a'..=b'f' => Ok(ascii - b'a' + 10),
        b'A'..=b'F' => Ok(ascii - b'A' + 10),
        _ => Err(KeyError::Malformed),
    }
}
