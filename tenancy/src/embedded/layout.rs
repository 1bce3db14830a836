//! The files of an embedded server below its data directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::EmbeddedError;
use super::user::{ServerUser, give_to, server_uid};

/// A socket's path must fit 107 bytes, and `/.s.PGSQL.5432` follows the directory.
const LONGEST_SOCKET_DIR: usize = 92;
const LONGEST_LOG: u64 = 8 << 20;

/// Paths below a data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The cluster itself. It is there as a whole or not at all.
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Where `initdb` works, before the rename.
    pub(crate) fn data_new(&self) -> PathBuf {
        self.root.join("data.new")
    }

    pub(crate) fn passwords(&self) -> PathBuf {
        self.root.join("postgres.json")
    }

    /// Holds the superuser's password while `initdb` runs.
    pub(crate) fn initdb_password(&self) -> PathBuf {
        self.root.join("initdb.password")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    /// The major version that wrote the data, when there is any.
    pub(crate) fn data_major(&self) -> Option<u32> {
        fs::read_to_string(self.data().join("PG_VERSION")).ok()?.trim().parse().ok()
    }

    /// Where the socket goes: below the data directory, or in a short private directory when that path is too long.
    pub(crate) fn socket_dir(&self, user: Option<&ServerUser>) -> PathBuf {
        let usual = self.root.join("run");
        if usual.as_os_str().len() <= LONGEST_SOCKET_DIR {
            return usual;
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, self.root.as_os_str().as_encoded_bytes());
        let name: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        PathBuf::from(format!("/tmp/coreci-{}-{name}", server_uid(user)))
    }

    /// Makes the data directory. Nothing is made when the server's user could not reach it.
    pub(crate) fn create(&self, user: Option<&ServerUser>) -> Result<(), EmbeddedError> {
        self.reachable(user)?;
        if self.root.is_dir() {
            return Ok(());
        }
        // Root keeps the directory and lets the server's user pass through it; everything inside is closed by itself.
        let mode = if user.is_some() { 0o711 } else { 0o700 };
        let failed = unwritable("create", &self.root);
        DirBuilder::new().recursive(true).mode(mode).create(&self.root).map_err(&failed)?;
        // A strict umask would lock the server's user out of what it has to reach.
        fs::set_permissions(&self.root, fs::Permissions::from_mode(mode)).map_err(&failed)?;
        self.reachable(user)
    }

    fn reachable(&self, user: Option<&ServerUser>) -> Result<(), EmbeddedError> {
        match user.and_then(|user| Some((user, user.stopped_at(&self.root)?))) {
            Some((user, path)) => Err(EmbeddedError::Unreachable { user: user.name.clone(), path }),
            None => Ok(()),
        }
    }

    pub(crate) fn create_socket_dir(&self, user: Option<&ServerUser>) -> Result<PathBuf, EmbeddedError> {
        let path = self.socket_dir(user);
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => give_to(&path, user).map_err(unwritable("give away", &path))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable("create", &path)(error)),
        }
        // Below /tmp anybody could have made it first.
        let metadata = fs::symlink_metadata(&path).map_err(unwritable("inspect", &path))?;
        let private = metadata.is_dir() && metadata.mode() & 0o077 == 0 && metadata.uid() == server_uid(user);
        if private { Ok(path) } else { Err(EmbeddedError::SocketDirectoryTaken { path }) }
    }

    /// Holds the data directory for this process; `None` while another one does.
    pub(crate) fn lock(&self) -> Result<Option<File>, EmbeddedError> {
        let path = self.root.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(unwritable("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(unwritable("lock", &path)(error.into())),
        }
    }

    /// The server's log, for appending. One old log is kept beside it.
    pub(crate) fn open_log(&self) -> std::io::Result<File> {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LONGEST_LOG) {
            fs::rename(&path, path.with_extension("log.1"))?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)
    }

    /// What the log gained since it was `from` bytes long, in one line.
    pub(crate) fn log_since(&self, from: u64) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let news = usize::try_from(from).ok().and_then(|from| text.get(from..)).unwrap_or(&text);
        last_words(&String::from_utf8_lossy(news))
    }

    pub(crate) fn log_length(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |metadata| metadata.len())
    }
}

/// The last lines of a program's output, in one line.
pub(crate) fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

pub(crate) fn unwritable(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> EmbeddedError {
    move |source| EmbeddedError::Unwritable { action, path: path.to_owned(), source }
}

/// Writes a file that only its owner may read, so that a reader sees the old contents or the new, never a part.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    // A umask only takes bits away; this also holds on file systems that ignore the mode given to open.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(path)
}

/// Makes a rename in the directory of `path` durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
