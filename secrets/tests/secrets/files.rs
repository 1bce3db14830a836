//! A directory of sealed secrets for a test, and what an attacker with access to it can do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mcp_core::id::TenantId;
use mcp_core::secret::{SecretError, SecretProvider as _, SecretRef, SecretValue};
use secrets::{LocalConfig, LocalSecrets, MasterKey, OpenError};
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const NAME: &str = "proxmox:0197a7b4-3c00-7000-8000-000000000001";

/// Every file below a directory, by its path from there.
pub(crate) type Snapshot = BTreeMap<PathBuf, Vec<u8>>;

pub(crate) struct World {
    scratch: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.scratch.path().join("secrets")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// As a program does when it starts.
    pub(crate) fn open(&self) -> LocalSecrets {
        open(&self.dir(), master()).unwrap()
    }

    pub(crate) fn tenant_dir(&self, n: u128) -> PathBuf {
        self.dir().join(tenant(n).to_string())
    }

    pub(crate) fn ledger(&self, n: u128) -> PathBuf {
        self.tenant_dir(n).join("ledger")
    }

    /// The one sealed secret of a tenant that has one.
    pub(crate) fn sealed(&self, n: u128) -> PathBuf {
        let files = self.snapshot_of(&self.tenant_dir(n));
        let mut sealed = files.into_keys().filter(|path| path != Path::new("ledger"));
        let only = sealed.next().unwrap();
        assert_eq!(sealed.next(), None);
        self.tenant_dir(n).join(only)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&self.dir())
    }

    pub(crate) fn snapshot_of(&self, dir: &Path) -> Snapshot {
        let mut found = Snapshot::new();
        collect(dir, dir, &mut found);
        found
    }

    /// Makes the directory hold exactly this.
    pub(crate) fn restore(&self, snapshot: &Snapshot) {
        for path in self.snapshot().keys() {
            fs::remove_file(self.dir().join(path)).unwrap();
        }
        for (path, bytes) in snapshot {
            fs::write(self.dir().join(path), bytes).unwrap();
        }
    }
}

fn collect(root: &Path, dir: &Path, found: &mut Snapshot) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

pub(crate) fn tenant(n: u128) -> TenantId {
    TenantId::from_uuid(Uuid::from_u128(n))
}

pub(crate) fn master() -> MasterKey {
    MasterKey::from_text(&"5a".repeat(32)).unwrap()
}

pub(crate) fn other_master() -> MasterKey {
    MasterKey::from_text(&"5b".repeat(32)).unwrap()
}

pub(crate) fn open(dir: &Path, master: MasterKey) -> Result<LocalSecrets, OpenError> {
    LocalSecrets::open(LocalConfig { dir: dir.to_owned(), master })
}

pub(crate) fn reference(name: &str) -> SecretRef {
    SecretRef::new(format!("local:{name}"))
}

pub(crate) async fn put(secrets: &LocalSecrets, n: u128, name: &str, value: &str) {
    let stored = secrets.put(tenant(n), name, SecretValue::new(value.to_owned())).await.unwrap();
    assert_eq!(stored, reference(name));
}

#[expect(clippy::disallowed_methods, reason = "a test looks at what came back")]
pub(crate) async fn get(secrets: &LocalSecrets, n: u128, name: &str) -> Result<String, SecretError> {
    secrets.get(tenant(n), &reference(name)).await.map(|value| value.reveal().to_owned())
}

/// What a get answers, in a word: the secret itself, `not found` or `unavailable`.
pub(crate) async fn answer(secrets: &LocalSecrets, n: u128, name: &str) -> String {
    match get(secrets, n, name).await {
        Ok(value) => value,
        Err(SecretError::NotFound) => "not found".to_owned(),
        Err(SecretError::Unavailable(_)) => "unavailable".to_owned(),
    }
}

/// An error and all its causes, in every way that it prints.
pub(crate) fn every_word(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = format!("{error:?} {error:#?}");
    let mut next = Some(error);
    while let Some(error) = next {
        words = format!("{words} {error}");
        next = error.source();
    }
    words
}
