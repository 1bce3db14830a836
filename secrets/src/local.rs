//! Secrets in sealed files on this machine.

mod check;
mod files;
mod ledger;
mod master;
mod name;
mod seal;
mod store;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_core::id::TenantId;
use mcp_core::secret::{SecretError, SecretProvider, SecretRef, SecretValue};

pub use self::check::OpenError;
pub use self::files::FileError;
pub use self::master::{KeyError, KeyId, MasterKey};
use self::name::{Asked, SecretName};
use self::store::{Store, StoreError};

/// Where the sealed files are, and the key to them.
#[derive(Debug)]
pub struct LocalConfig {
    /// A directory of their own, on a local file system. It is made (0700) when it is missing.
    pub dir: PathBuf,
    /// The key that they are sealed with.
    pub master: MasterKey,
}

/// Keeps the secrets of tenants in sealed files, which survive a restart. References look like `local:<name>`.
///
/// Several processes may use one directory at a time. A clone is another handle on the same provider.
#[derive(Clone)]
pub struct LocalSecrets {
    store: Arc<Store>,
}

impl LocalSecrets {
    /// Opens a directory of sealed secrets. On the first use it is made, and marked with the key. Blocks.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do. The wrong key never becomes the new one.
    pub fn open(config: LocalConfig) -> Result<Self, OpenError> {
        let LocalConfig { dir, master } = config;
        check::open_with(&master, &dir)?;
        Ok(Self { store: Arc::new(Store::new(dir, master)) })
    }

    /// Runs work on files where it may block. It runs to its end even if nobody waits for it any more.
    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, SecretError> {
        let store = Arc::clone(&self.store);
        // The cause of a join error is left out: it could quote what a panic said.
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or(Err(StoreError::Stopped)).map_err(unavailable)
    }
}

#[async_trait]
impl SecretProvider for LocalSecrets {
    async fn put(&self, tenant: TenantId, name: &str, value: SecretValue) -> Result<SecretRef, SecretError> {
        let name = SecretName::parse(name).map_err(|invalid| unavailable(invalid.into()))?;
        let reference = name.reference();
        self.on_files(move |store| store.put(tenant, &name, &value)).await?;
        Ok(reference)
    }

    async fn get(&self, tenant: TenantId, reference: &SecretRef) -> Result<SecretValue, SecretError> {
        match name::asked(reference) {
            Asked::Named(name) => {
                let found = self.on_files(move |store| store.get(tenant, &name)).await?;
                found.ok_or(SecretError::NotFound)
            }
            Asked::Impossible => Err(SecretError::NotFound),
            Asked::Foreign => Err(unavailable(StoreError::ForeignReference)),
        }
    }

    async fn delete(&self, tenant: TenantId, reference: &SecretRef) -> Result<(), SecretError> {
        match name::asked(reference) {
            Asked::Named(name) => self.on_files(move |store| store.delete(tenant, &name)).await,
            Asked::Impossible => Ok(()),
            // Not silently: the secret lives on elsewhere, and the caller believes that it is gone.
            Asked::Foreign => Err(unavailable(StoreError::ForeignReference)),
        }
    }
}

impl fmt::Debug for LocalSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSecrets").finish_non_exhaustive()
    }
}

fn unavailable(error: StoreError) -> SecretError {
    SecretError::Unavailable(Box::new(error))
}
