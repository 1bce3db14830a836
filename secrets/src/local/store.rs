//! Reading and writing the sealed files of tenants. Everything here blocks.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mcp_core::id::TenantId;
use mcp_core::secret::SecretValue;

use super::files::{
    FileError, UNFINISHED, failed, lock_exclusive, lock_shared, make_private_dir, read_up_to, remove,
    sync_dir, write_durably,
};
use super::ledger::Ledger;
use super::master::MasterKey;
use super::name::{InvalidName, SecretName};
use super::seal::{self, Binding, Kind, OVERHEAD, SealError};

const LEDGER: &str = "ledger";
const MAX_VALUE_LEN: usize = 64 * 1024;
const MAX_LEDGER_LEN: usize = 8 * 1024 * 1024;

/// Why a secret cannot be stored, read or destroyed. It lies below [`mcp_core::secret::SecretError::Unavailable`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("the secret cannot be stored under this name")]
    Name(#[from] InvalidName),
    #[error("the reference belongs to another secret provider")]
    ForeignReference,
    #[error("the secret is longer than {MAX_VALUE_LEN} bytes")]
    TooLong,
    #[error("the tenant has too many secrets")]
    TooMany,
    #[error("the keys of this tenant have sealed as often as they may: change the master key")]
    WornOut,
    #[error("a file of sealed secrets cannot be used")]
    File(#[from] FileError),
    #[error("a secret cannot be sealed or opened")]
    Seal(#[from] SealError),
    #[error("the ledger of the tenant is missing: restore its whole directory from one backup")]
    LedgerMissing,
    #[error("the ledger of the tenant is unreadable: restore its whole directory from one backup")]
    LedgerUnreadable,
    #[error(
        "the tenant's secrets are older than they were: after restoring a backup, start the program again"
    )]
    RolledBack,
    #[error(
        "the sealed file that the ledger lists is missing: restore the tenant's directory from one backup"
    )]
    FileMissing,
    #[error("the sealed file is not the one that the ledger lists")]
    Replaced,
    #[error("the secret is not text")]
    NotText,
    #[error("the work on the secret was stopped")]
    Stopped,
}

/// The sealed files below one directory.
pub(crate) struct Store {
    dir: PathBuf,
    master: MasterKey,
    /// The highest generation seen of each tenant: while we run, a whole tenant put back in time is noticed as well.
    seen: Mutex<HashMap<TenantId, u64>>,
}

impl Store {
    pub(crate) fn new(dir: PathBuf, master: MasterKey) -> Self {
        Self { dir, master, seen: Mutex::default() }
    }

    pub(crate) fn put(
        &self,
        tenant: TenantId,
        name: &SecretName,
        value: &SecretValue,
    ) -> Result<(), StoreError> {
        #[expect(clippy::disallowed_methods, reason = "here the secret enters the store")]
        let plaintext = value.reveal().as_bytes();
        if plaintext.len() > MAX_VALUE_LEN {
            return Err(StoreError::TooLong);
        }
        let dir = self.tenant_dir(tenant);
        make_private_dir(&dir)?;
        let _lock = lock_exclusive(&dir)?;
        let files = sealed_files(&dir)?;
        let mut ledger = match self.ledger(tenant, &files)? {
            Some(ledger) => ledger,
            None => {
                // First, so that a kill never leaves sealed files without a ledger.
                let ledger = Ledger::default();
                self.write_ledger(tenant, &ledger)?;
                ledger
            }
        };

        let generation = ledger.advance().ok_or(StoreError::WornOut)?;
        let binding = Binding { kind: Kind::Secret, tenant, name: name.as_str() };
        let sealed = seal::seal(&self.master, &binding, generation, plaintext)?;
        write_durably(&secret_path(&dir, tenant, name, &sealed.stamp), &sealed.bytes)?;
        ledger.set(name, sealed.stamp);
        self.write_ledger(tenant, &ledger)?;
        sweep(&dir, &files, &ledger)
    }

    pub(crate) fn get(&self, tenant: TenantId, name: &SecretName) -> Result<Option<SecretValue>, StoreError> {
        let dir = self.tenant_dir(tenant);
        let _lock = match lock_shared(&dir) {
            Err(error) if error.is_not_found() => return self.nothing_there(tenant).map(|()| None),
            lock => lock?,
        };
        let Some(ledger) = self.ledger_for_reading(tenant, &dir)? else {
            return Ok(None);
        };
        let Some(stamp) = ledger.stamp(name) else {
            return Ok(None);
        };
        let file = read_up_to(&secret_path(&dir, tenant, name, stamp), OVERHEAD + MAX_VALUE_LEN)?;
        let file = file.ok_or(StoreError::FileMissing)?;
        let binding = Binding { kind: Kind::Secret, tenant, name: name.as_str() };
        let mut opened = seal::open(&self.master, &binding, &file)?;
        if opened.stamp != stamp {
            return Err(StoreError::Replaced);
        }
        match String::from_utf8(std::mem::take(&mut *opened.plaintext)) {
            Ok(text) => Ok(Some(SecretValue::new(text))),
            // We seal text only. The error would carry the bytes; they are wiped instead.
            Err(error) => {
                drop(zeroize::Zeroizing::new(error.into_bytes()));
                Err(StoreError::NotText)
            }
        }
    }

    pub(crate) fn delete(&self, tenant: TenantId, name: &SecretName) -> Result<(), StoreError> {
        let dir = self.tenant_dir(tenant);
        let _lock = match lock_exclusive(&dir) {
            Err(error) if error.is_not_found() => return self.nothing_there(tenant),
            lock => lock?,
        };
        let files = sealed_files(&dir)?;
        let Some(mut ledger) = self.ledger(tenant, &files)? else {
            return Ok(());
        };
        if ledger.strike(name) {
            ledger.advance().ok_or(StoreError::WornOut)?;
            self.write_ledger(tenant, &ledger)?;
        }
        // Also when the name was struck out before: an earlier attempt may have been killed right after.
        sweep(&dir, &files, &ledger)
    }

    fn tenant_dir(&self, tenant: TenantId) -> PathBuf {
        self.dir.join(tenant.to_string())
    }

    /// The ledger, unless the tenant has none yet. The caller holds the lock.
    fn ledger(&self, tenant: TenantId, files: &HashSet<String>) -> Result<Option<Ledger>, StoreError> {
        let ledger = self.read_ledger(tenant)?;
        let newest = files.iter().filter_map(|file| generation_of(file)).max();
        match (&ledger, newest) {
            (None, Some(_)) => Err(StoreError::LedgerMissing),
            // A killed write leaves a file that is one ahead. More means that the ledger was put back alone.
            (Some(ledger), Some(newest)) if newest > ledger.generation() + 1 => Err(StoreError::RolledBack),
            (None, None) | (Some(_), _) => Ok(ledger),
        }
    }

    /// As [`Store::ledger`], without listing the directory when there is a ledger.
    fn ledger_for_reading(&self, tenant: TenantId, dir: &Path) -> Result<Option<Ledger>, StoreError> {
        match self.read_ledger(tenant)? {
            Some(ledger) => Ok(Some(ledger)),
            None => self.ledger(tenant, &sealed_files(dir)?),
        }
    }

    fn read_ledger(&self, tenant: TenantId) -> Result<Option<Ledger>, StoreError> {
        let Some(file) = read_up_to(&self.tenant_dir(tenant).join(LEDGER), OVERHEAD + MAX_LEDGER_LEN)? else {
            return self.nothing_there(tenant).map(|()| None);
        };
        let opened = seal::open(&self.master, &ledger_binding(tenant), &file)?;
        let ledger =
            Ledger::from_bytes(opened.generation, &opened.plaintext).ok_or(StoreError::LedgerUnreadable)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = seen.entry(tenant).or_default();
        if ledger.generation() < *highest {
            return Err(StoreError::RolledBack);
        }
        *highest = ledger.generation();
        Ok(Some(ledger))
    }

    /// From here on the write counts.
    fn write_ledger(&self, tenant: TenantId, ledger: &Ledger) -> Result<(), StoreError> {
        let bytes = ledger.to_bytes();
        if bytes.len() > MAX_LEDGER_LEN {
            return Err(StoreError::TooMany);
        }
        let sealed = seal::seal(&self.master, &ledger_binding(tenant), ledger.generation(), &bytes)?;
        write_durably(&self.tenant_dir(tenant).join(LEDGER), &sealed.bytes)?;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant, ledger.generation());
        Ok(())
    }

    /// That a tenant has no files is fine, unless it had some while we were running.
    fn nothing_there(&self, tenant: TenantId) -> Result<(), StoreError> {
        match self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&tenant) {
            Some(1..) => Err(StoreError::RolledBack),
            Some(0) | None => Ok(()),
        }
    }
}

fn ledger_binding(tenant: TenantId) -> Binding<'static> {
    Binding { kind: Kind::Ledger, tenant, name: LEDGER }
}

fn secret_path(dir: &Path, tenant: TenantId, name: &SecretName, stamp: &str) -> PathBuf {
    dir.join(format!("{}.{stamp}", name.file_stem(tenant)))
}

/// The stamp in the name of a sealed secret. It starts with the generation, as 16 hexadecimal digits.
fn stamp_of(file: &str) -> Option<&str> {
    file.split_once('.').map(|(_, stamp)| stamp)
}

fn generation_of(file: &str) -> Option<u64> {
    stamp_of(file)?.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok())
}

/// The names of all files in the directory of a tenant but the ledger.
fn sealed_files(dir: &Path) -> Result<HashSet<String>, FileError> {
    let mut files = HashSet::new();
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let name = entry.map_err(failed("read", dir))?.file_name().to_string_lossy().into_owned();
        if name != LEDGER {
            files.insert(name);
        }
    }
    Ok(files)
}

/// Removes what is no longer current, and what killed writes left. The caller has listed the directory before it wrote.
fn sweep(dir: &Path, files: &HashSet<String>, ledger: &Ledger) -> Result<(), StoreError> {
    let current = ledger.current();
    let is_stale = |file: &&String| {
        let Some(stamp) = stamp_of(file) else { return false };
        stamp == UNFINISHED || generation_of(file).is_some() && !current.contains(stamp)
    };
    let stale: Vec<_> = files.iter().filter(is_stale).collect();
    for file in &stale {
        remove(&dir.join(file))?;
    }
    if stale.is_empty() { Ok(()) } else { Ok(sync_dir(dir)?) }
}
