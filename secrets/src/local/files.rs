//! Files and directories that only their owner can read, written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// The extension of a file that is being written.
pub(crate) const UNFINISHED: &str = "new";

/// Something that the file system would not do.
#[derive(Debug, thiserror::Error)]
#[error("{} could not be {action}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl FileError {
    pub(crate) fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Gives an error the action and the path that it happened to.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError { action, path, source }
}

/// Makes a directory (0700) and those above it, and makes sure that it is still there after a power cut.
pub(crate) fn make_private_dir(path: &Path) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("created", path))?;
    sync_parent(path)
}

/// The permission bits that others than the owner have.
pub(crate) fn bits_of_others(metadata: &fs::Metadata) -> u32 {
    metadata.permissions().mode() & 0o077
}

/// Writes a file (0600) that is the old one or the new one at any moment, also after a power cut.
///
/// The caller holds a lock that keeps other writers of this path away.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let unfinished = path.with_extension(UNFINISHED);
    let write = || {
        // A left-over of a killed attempt may have other permissions, or be a link to somewhere else.
        remove_if_there(&unfinished)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().map_err(failed("written", path))?;
    sync_parent(path)
}

/// Reads a file of at most `limit` bytes into a buffer that is wiped; `None` when there is no file.
pub(crate) fn read_up_to(path: &Path, limit: usize) -> Result<Option<Zeroizing<Vec<u8>>>, FileError> {
    match File::open(path) {
        Ok(mut file) => read_open(&mut file, limit).map(Some).map_err(failed("read", path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// As [`read_up_to`], of a file that is open.
pub(crate) fn read_open(file: &mut File, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // The room is there from the start, because a buffer that grows leaves unwiped copies behind.
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Zeroizing::new(vec![0; length.min(limit) + 1]);
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    if filled > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any file of its kind"));
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    remove_if_there(path).map_err(failed("removed", path))
}

/// Keeps every other process and thread from writing in a directory for as long as the answer lives.
///
/// The kernel forgets the lock when the process ends, however it ends, so nothing stale can be left behind.
pub(crate) fn lock_exclusive(dir: &Path) -> Result<File, FileError> {
    let lock = || File::open(dir).and_then(|handle| handle.lock().map(|()| handle));
    lock().map_err(failed("locked", dir))
}

/// As [`lock_exclusive`], shared with others that only read.
pub(crate) fn lock_shared(dir: &Path) -> Result<File, FileError> {
    let lock = || File::open(dir).and_then(|handle| handle.lock_shared().map(|()| handle));
    lock().map_err(failed("locked", dir))
}

/// Makes what was created, renamed or removed in a directory survive a power cut.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), FileError> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(failed("flushed to disk", dir))
}

fn sync_parent(path: &Path) -> Result<(), FileError> {
    match path.parent() {
        // The parent of a bare name is the working directory.
        Some(dir) if dir.as_os_str().is_empty() => sync_dir(Path::new(".")),
        Some(dir) => sync_dir(dir),
        None => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        make_private_dir(&state).unwrap();
        assert_eq!(bits_of_others(&fs::metadata(&state).unwrap()), 0);

        let path = state.join("ledger");
        std::os::unix::fs::symlink("/nonexistent/elsewhere", path.with_extension(UNFINISHED)).unwrap();
        write_durably(&path, b"one").unwrap();
        write_durably(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(bits_of_others(&fs::metadata(&path).unwrap()), 0);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "no unfinished file stays");
    }

    #[test]
    fn reading_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(read_up_to(&path, 4).unwrap().is_none());
        write_durably(&path, b"1234").unwrap();
        assert_eq!(read_up_to(&path, 4).unwrap().unwrap().as_slice(), b"1234");
        assert!(read_up_to(&path, 3).is_err());
    }
}
