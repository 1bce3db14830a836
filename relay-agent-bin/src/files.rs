//! Files of the state directory: written whole or not at all, readable by their owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes the directory (0700) if it is not there. Answers whether it was made.
pub(crate) fn make_private_dir(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    Ok(true)
}

/// Writes a file (0600) that is either the old one or the new one at any moment, also after a power cut.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let file = create_private(&temporary, bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Like [`write_durably`], but a power cut may lose it: for what is written often and matters only while we run.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    create_private(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

/// Claims a directory for as long as the answer lives; `None` when another process has claimed it.
///
/// The kernel forgets the claim when the process ends, however it ends, so nothing stale can be left behind.
pub(crate) fn claim(dir: &Path) -> io::Result<Option<File>> {
    let handle = File::open(dir)?;
    match handle.try_lock() {
        Ok(()) => Ok(Some(handle)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The permission bits of a file that others than its owner have; 0 when it is private.
pub(crate) fn bits_of_others(file: &fs::Metadata) -> u32 {
    file.permissions().mode() & 0o077
}

fn create_private(path: &Path, bytes: &[u8]) -> io::Result<File> {
    // A left-over of an earlier attempt may have other permissions, or be a link to somewhere else.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let claimed = claim(dir.path()).unwrap();
        assert!(claimed.is_some());
        assert!(claim(dir.path()).unwrap().is_none());
        drop(claimed);
        assert!(claim(dir.path()).unwrap().is_some());
    }

    #[test]
    fn files_are_private_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        assert!(make_private_dir(&state).unwrap());
        assert!(!make_private_dir(&state).unwrap());
        assert_eq!(bits_of_others(&fs::metadata(&state).unwrap()), 0);

        let path = state.join("agent.key");
        std::os::unix::fs::symlink("/nonexistent/elsewhere", path.with_extension("new")).unwrap();
        write_durably(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(bits_of_others(&fs::metadata(&path).unwrap()), 0);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "no temporary file stays");
    }
}
