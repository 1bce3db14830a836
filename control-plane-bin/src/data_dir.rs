//! The data directory: where it is, and the small secrets of this installation that lie in it.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

/// The directory that everything of one installation lies in.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// Something about the data directory is not right. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// There is no place for it.
    #[error("no data directory is known: set HOME, or name one with --data-dir")]
    Unknown,
    /// A file or directory cannot be used.
    #[error(
        "{path} cannot be {action}: {source}; check its owner and permissions, or name another --data-dir"
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A secret that others could read.
    #[error(
        "{0} can be read by others, so its secret is no secret: chmod 600 it, or delete it to have a new one made"
    )]
    Exposed(PathBuf),
    /// A secret of the wrong length.
    #[error("{0} does not hold a key of this product; restore it from a backup")]
    Damaged(PathBuf),
    /// The system has no randomness.
    #[error("the system's random generator failed")]
    NoRandomness,
}

impl DataDir {
    /// The named directory, or the default: `/var/lib/coreci` for root, the XDG data directory for others.
    ///
    /// # Errors
    /// [`DataDirError::Unknown`] when there is no home.
    pub fn choose(
        named: Option<&Path>,
        xdg_data_home: Option<&Path>,
        home: Option<&Path>,
    ) -> Result<Self, DataDirError> {
        if let Some(named) = named {
            // Processes of other users are handed this path, so it must not depend on where we stand.
            let absolute = std::path::absolute(named).map_err(|source| DataDirError::Io {
                action: "resolved",
                path: named.to_owned(),
                source,
            })?;
            return Ok(Self(absolute));
        }
        if rustix::process::geteuid().is_root() {
            return Ok(Self(PathBuf::from("/var/lib/coreci")));
        }
        let base = match (xdg_data_home, home) {
            (Some(data), _) => data.to_owned(),
            (None, Some(home)) => home.join(".local/share"),
            (None, None) => return Err(DataDirError::Unknown),
        };
        Ok(Self(base.join("coreci")))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A directory below, created with mode 0700 when it is missing.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn private_dir(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.0.join(name);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| DataDirError::Io { action: "created", path: path.clone(), source })?;
        Ok(path)
    }

    /// A 32-byte secret of this installation, made on the first use.
    ///
    /// # Errors
    /// [`DataDirError`] when it cannot be made, is readable by others, or is damaged. It is never replaced by a new one.
    pub fn secret(&self, name: &str) -> Result<[u8; 32], DataDirError> {
        let path = self.private_dir("keys")?.join(name);
        match read_private(&path)? {
            Some(bytes) => bytes.try_into().map_err(|_| DataDirError::Damaged(path)),
            None => {
                let mut bytes = [0_u8; 32];
                SystemRandom::new().fill(&mut bytes).map_err(|_| DataDirError::NoRandomness)?;
                write_private(&path, &bytes)?;
                Ok(bytes)
            }
        }
    }

    /// A text that only this user may read; `None` when there is none.
    ///
    /// # Errors
    /// As [`DataDir::secret`].
    pub fn read_text(&self, name: &str) -> Result<Option<String>, DataDirError> {
        let path = self.0.join(name);
        let bytes = read_private(&path)?;
        bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| DataDirError::Damaged(path))).transpose()
    }

    /// Replaces such a text, atomically.
    ///
    /// # Errors
    /// [`DataDirError::Io`].
    pub fn write_text(&self, name: &str, text: &str) -> Result<PathBuf, DataDirError> {
        let path = self.0.join(name);
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) {
        // A file that cannot be removed is stale, not dangerous: whoever reads it tries what it says and is told.
        let _ = std::fs::remove_file(self.0.join(name));
    }
}

fn read_private(path: &Path) -> Result<Option<Vec<u8>>, DataDirError> {
    let io = |source| DataDirError::Io { action: "read", path: path.to_owned(), source };
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    if file.metadata().map_err(io)?.mode() & 0o077 != 0 {
        return Err(DataDirError::Exposed(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(Some(bytes))
}

/// Writes beside, then renames: a reader sees the old text or the new one.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), DataDirError> {
    let io = |source| DataDirError::Io { action: "written", path: path.to_owned(), source };
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        io(error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn scratch() -> DataDir {
        DataDir(std::env::temp_dir().join(format!("coreci-data-{}", uuid::Uuid::new_v4())))
    }

    // proves: C-O11, C-J07
    #[test]
    fn a_secret_is_made_once_kept_private_and_never_replaced() {
        let data = scratch();
        let secret = data.secret("cursor.key").expect("made");
        assert_eq!(data.secret("cursor.key").expect("read"), secret);
        let path = data.path().join("keys/cursor.key");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(data.secret("cursor.key"), Err(DataDirError::Exposed(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
        std::fs::write(&path, b"short").expect("written");
        assert!(matches!(data.secret("cursor.key"), Err(DataDirError::Damaged(_))));
        std::fs::remove_dir_all(data.path()).expect("removed");
    }
}
