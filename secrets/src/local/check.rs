//! The key check value: it tells the wrong master key from the right one before anything is read or written.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_core::id::TenantId;
use uuid::Uuid;

use super::files::{
    FileError, bits_of_others, failed, lock_exclusive, make_private_dir, read_up_to, write_durably,
};
use super::master::{KeyId, MasterKey};
use super::seal::{self, Binding, Kind, OVERHEAD, SealError};

const FILE: &str = "key-check";
/// It proves itself by opening; there is nothing to compare.
const CONTENT: &[u8] = b"";
const BINDING: Binding<'static> =
    Binding { kind: Kind::Check, tenant: TenantId::from_uuid(Uuid::nil()), name: FILE };

/// Why the sealed secrets cannot be opened. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The secrets were sealed with another key.
    #[error(
        "the secrets in {} are sealed with master key {sealed_with}, and the one given is {given}: \
         give the key that belongs to them, or the directory that belongs to this key",
        dir.display()
    )]
    WrongMasterKey {
        /// Where the secrets are.
        dir: PathBuf,
        /// The key that sealed them.
        sealed_with: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// Secrets are there and the value that tells which key they need is not.
    #[error(
        "{} holds sealed secrets and no file 'key-check': restore the whole directory from one backup",
        .0.display()
    )]
    CheckMissing(PathBuf),
    /// The check value does not open with the key that it names.
    #[error("{} is damaged: restore the whole directory from one backup", path.display())]
    CheckDamaged {
        /// The check value.
        path: PathBuf,
    },
    /// Others than the owner can reach the directory.
    #[error("others can reach {}: run 'chmod 700' on it", .0.display())]
    Exposed(PathBuf),
    /// The operating system gave none.
    #[error("no randomness to seal with")]
    NoRandomness,
    /// The directory cannot be read or made.
    #[error("the directory of sealed secrets cannot be used")]
    File(#[from] FileError),
}

/// Checks the master key against the directory, and leaves a check value behind on the first use.
pub(crate) fn open_with(master: &MasterKey, dir: &Path) -> Result<(), OpenError> {
    make_private_dir(dir)?;
    if bits_of_others(&fs::metadata(dir).map_err(failed("read", dir))?) != 0 {
        return Err(OpenError::Exposed(dir.to_owned()));
    }
    // Of two processes that start at once with different keys, the second one sees the first one's check value.
    let _lock = lock_exclusive(dir)?;
    let path = dir.join(FILE);
    let Some(sealed) = read_up_to(&path, OVERHEAD + CONTENT.len())? else {
        if sealed_state_in(dir)? {
            return Err(OpenError::CheckMissing(dir.to_owned()));
        }
        let sealed = seal::seal(master, &BINDING, 0, CONTENT).map_err(|_| OpenError::NoRandomness)?;
        return Ok(write_durably(&path, &sealed.bytes)?);
    };
    match seal::open(master, &BINDING, &sealed) {
        Ok(_) => Ok(()),
        Err(SealError::OtherKey { sealed_with, given }) => {
            Err(OpenError::WrongMasterKey { dir: dir.to_owned(), sealed_with, given })
        }
        Err(
            SealError::NotSealed
            | SealError::UnknownFormat(_)
            | SealError::NotAuthentic
            | SealError::NoRandomness
            | SealError::TooLong,
        ) => Err(OpenError::CheckDamaged { path }),
    }
}

/// Whether a directory holds a check value or the directory of a tenant: then a master key exists somewhere, and a new
/// one must not take its place.
pub(crate) fn sealed_state_in(dir: &Path) -> Result<bool, FileError> {
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let name = entry.map_err(failed("read", dir))?.file_name();
        let name = name.to_string_lossy();
        if name == FILE || name.parse::<TenantId>().is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
