//! A client's configuration file: read, edited and replaced, or left exactly as it was.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use super::edit::EditError;

const BYTE_ORDER_MARK: &str = "\u{feff}";
/// More is not a configuration.
const LARGEST: u64 = 64 << 20;

/// What became of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// The file, links followed.
    pub(super) file: PathBuf,
    /// Whether anything had to be changed.
    pub(super) is_changed: bool,
    /// Where the earlier text lies now.
    pub(super) backup: Option<PathBuf>,
}

/// Why the file was left as it was.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It cannot be read or replaced.
    #[error("{path} cannot be {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It is something else than a file of text.
    #[error("{0} is not a file of UTF-8 text; it was left as it is")]
    NotText(PathBuf),
    /// It cannot be edited.
    #[error("{path} was left as it is: {source}")]
    Edit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: EditError,
    },
    /// The client wrote it at the same time.
    #[error("{0} was changed by another program meanwhile and left alone; close the client and try again")]
    Changed(PathBuf),
}

/// Edits the file in place of its owner. A reader sees the old text or the new one, the old text stays beside it, and a
/// text that is already as it should be is not touched. `is_secret` says that the new text holds a key.
pub(super) fn write(
    path: &Path,
    is_secret: bool,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<Written, FileError> {
    let file = follow(path)?;
    let old = read(&file)?;
    let text = Text::parse(old.as_ref().map_or(&[][..], |old| &old.bytes));
    let text = text.ok_or_else(|| FileError::NotText(file.clone()))?;
    let edited = edit(&text.plain).map_err(|source| FileError::Edit { path: file.clone(), source })?;
    let new = text.dress(&edited);
    let io = |action| {
        let path = file.clone();
        move |source| FileError::Io { action, path, source }
    };
    let mode = match &old {
        Some(old) if is_secret => old.mode & 0o700,
        Some(old) => old.mode,
        None => 0o600,
    };
    if let Some(old) = old.as_ref().filter(|old| old.bytes == new) {
        let is_changed = old.mode != mode;
        if is_changed {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).map_err(io("made private"))?;
        }
        return Ok(Written { file, is_changed, backup: None });
    }
    if let (None, Some(directory)) = (&old, file.parent()) {
        std::fs::create_dir_all(directory).map_err(io("made"))?;
    }
    let owner = old.as_ref().map(|old| old.owner);
    let beside = Beside::write(&file, &new, mode, owner).map_err(io("written"))?;
    let backup = old.as_ref().map(|old| keep(&file, old)).transpose().map_err(io("backed up"))?;
    if read(&file)?.map(|now| now.bytes) != old.map(|old| old.bytes) {
        if let Some(backup) = backup {
            // Ours, and of no use: what it holds is not what was there last.
            let _ = std::fs::remove_file(backup);
        }
        return Err(FileError::Changed(file));
    }
    std::fs::rename(&beside.0, &file).map_err(io("written"))?;
    Ok(Written { file, is_changed: true, backup })
}

/// Where the file really is: people keep their configuration elsewhere and link to it.
fn follow(path: &Path) -> Result<PathBuf, FileError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
        }
        _ => std::fs::canonicalize(path).map_err(|source| FileError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

struct Old {
    bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
}

fn read(file: &Path) -> Result<Option<Old>, FileError> {
    let io = |source| FileError::Io { action: "read", path: file.to_owned(), source };
    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    // Asked before it is opened: a pipe would be waited for.
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(FileError::NotText(file.to_owned()));
    }
    let bytes = std::fs::read(file).map_err(io)?;
    let owner = (metadata.uid(), metadata.gid());
    Ok(Some(Old { bytes, mode: metadata.mode() & 0o777, owner }))
}

/// A text without the two things that editors on Windows add.
struct Text {
    plain: String,
    has_mark: bool,
    has_returns: bool,
}

impl Text {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (has_mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let returns = text.matches("\r\n").count();
        let has_returns = returns > 0 && returns == text.matches('\n').count();
        let plain = if has_returns { text.replace("\r\n", "\n") } else { text.to_owned() };
        Some(Self { plain, has_mark, has_returns })
    }

    fn dress(&self, edited: &str) -> Vec<u8> {
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        let edited = if self.has_returns { edited.replace('\n', "\r\n") } else { edited.to_owned() };
        format!("{mark}{edited}").into_bytes()
    }
}

/// The new text in a file beside the old one, gone when it is not needed any more.
struct Beside(PathBuf);

impl Beside {
    fn write(file: &Path, bytes: &[u8], mode: u32, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let beside = Self(named(file, &format!(".new-{}", uuid::Uuid::new_v4())));
        let mut new = create(&beside.0)?;
        new.write_all(bytes)?;
        if let Some(owner) = owner {
            give(&new, owner)?;
        }
        new.set_permissions(Permissions::from_mode(mode))?;
        new.sync_all()?;
        Ok(beside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Not there any more after a rename.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Keeps the old text under the first free name. It may hold keys, so it is for its owner only.
fn keep(file: &Path, old: &Old) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let suffix = if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") };
        let backup = named(file, &suffix);
        match create(&backup) {
            Ok(mut kept) => {
                kept.write_all(&old.bytes)?;
                give(&kept, old.owner)?;
                kept.sync_all()?;
                return Ok(backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// When root edits for somebody else, that one must be able to go on.
fn give(file: &File, (user, group): (u32, u32)) -> io::Result<()> {
    if rustix::process::geteuid().is_root() { fchown(file, Some(user), Some(group)) } else { Ok(()) }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn named(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_meanwhile_is_not_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("config.json");
        for before in [None, Some("{}")] {
            if let Some(before) = before {
                std::fs::write(&file, before).expect("written");
            }
            let written = write(&file, false, |text| {
                std::fs::write(&file, "theirs").expect("written");
                Ok(format!("{text}ours"))
            });
            assert!(matches!(written, Err(FileError::Changed(_))), "{written:?}");
            assert_eq!(std::fs::read_to_string(&file).expect("text"), "theirs");
            assert_eq!(
                std::fs::read_dir(directory.path()).expect("entries").count(),
                1,
                "nothing is left over"
            );
        }
    }
}
