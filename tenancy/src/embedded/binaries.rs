//! Where Postgres is on this machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::EmbeddedError;
use super::layout::Layout;

const DEBIAN_ROOT: &str = "/usr/lib/postgresql";
const MAJORS: std::ops::RangeInclusive<u32> = 15..=18;

/// A directory with `postgres`, `initdb` and their companions, and their major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgBinaries {
    directory: PathBuf,
    major: u32,
}

impl PgBinaries {
    /// Looks for server binaries: `configured` (CORECI_PG_BIN), then `path` (PATH), then `/usr/lib/postgresql/*/bin` with
    /// the newest first, then `DATA_DIR/pg`. A data directory that exists decides the major version.
    ///
    /// # Errors
    /// [`EmbeddedError::NoBinaries`], [`EmbeddedError::BadConfiguredBinaries`], [`EmbeddedError::MajorMismatch`] or
    /// [`EmbeddedError::UnsupportedMajor`].
    pub fn find(
        data_dir: &Path,
        configured: Option<&Path>,
        path: Option<&OsStr>,
    ) -> Result<Self, EmbeddedError> {
        let wanted = Layout::new(data_dir).data_major();
        if let Some(configured) = configured {
            let found = Self::in_directory(configured)
                .ok_or_else(|| EmbeddedError::BadConfiguredBinaries { path: configured.to_owned() })?;
            return found.fit_for(data_dir, wanted);
        }
        let found: Vec<Self> = candidates(data_dir, path, Path::new(DEBIAN_ROOT))
            .iter()
            .filter_map(|directory| Self::in_directory(directory))
            .collect();
        let right =
            |one: &&Self| MAJORS.contains(&one.major) && wanted.is_none_or(|major| one.major == major);
        if let Some(right) = found.iter().find(right) {
            return Ok(right.clone());
        }
        match found.into_iter().next() {
            Some(other) => other.fit_for(data_dir, wanted),
            None => Err(EmbeddedError::NoBinaries {
                looked: format!("PATH, {DEBIAN_ROOT} and {}", data_dir.join("pg").display()),
            }),
        }
    }

    /// The directory that holds the programs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The major version, such as 16.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// One of the programs, such as `pg_dump`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Resolves symlinks first: a PATH entry may hold a link to `postgres` alone, with `initdb` only beside its target.
    fn in_directory(directory: &Path) -> Option<Self> {
        let postgres = directory.join("postgres").canonicalize().ok()?;
        let real = postgres.parent()?;
        if !real.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(&postgres).arg("--version").output().ok()?;
        let major = major_in(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { directory: real.to_owned(), major })
    }

    fn fit_for(self, data_dir: &Path, wanted: Option<u32>) -> Result<Self, EmbeddedError> {
        match wanted {
            Some(data) if data != self.major => Err(EmbeddedError::MajorMismatch {
                data_dir: data_dir.to_owned(),
                data,
                found: self.major.to_string(),
            }),
            _ if !MAJORS.contains(&self.major) => {
                Err(EmbeddedError::UnsupportedMajor { path: self.directory, found: self.major })
            }
            _ => Ok(self),
        }
    }
}

fn candidates(data_dir: &Path, path: Option<&OsStr>, debian_root: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    // An empty PATH entry means the working directory: nothing is executed from there.
    all.retain(|directory| directory.is_absolute());
    let mut installed: Vec<(u32, PathBuf)> = std::fs::read_dir(debian_root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    installed.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    all.extend(installed.into_iter().map(|(_, directory)| directory));
    all.push(data_dir.join("pg/bin"));
    all.push(data_dir.join("pg"));
    all
}

/// The major version in `postgres (PostgreSQL) 16.4 (Debian 16.4-1)`.
fn major_in(version: &str) -> Option<u32> {
    let (_, number) = version.split_once("(PostgreSQL) ")?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_line_gives_its_major() {
        assert_eq!(major_in("postgres (PostgreSQL) 16.4 (Debian 16.4-1)\n"), Some(16));
        assert_eq!(major_in("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major_in("sh: postgres: not found"), None);
    }

    #[test]
    fn the_search_goes_path_then_newest_installed_then_data_directory() {
        let root = std::env::temp_dir().join(format!("coreci-binaries-{}", std::process::id()));
        for major in ["9.6", "15", "17", "16"] {
            std::fs::create_dir_all(root.join(major).join("bin")).unwrap();
        }
        let found = candidates(Path::new("/data"), Some(OsStr::new("/a::relative:/b")), &root);
        std::fs::remove_dir_all(&root).unwrap();

        let wanted = ["/a", "/b"].map(PathBuf::from).into_iter();
        let wanted = wanted.chain(["17/bin", "16/bin", "15/bin"].map(|end| root.join(end)));
        let wanted = wanted.chain(["/data/pg/bin", "/data/pg"].map(PathBuf::from));
        assert_eq!(found, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn a_wrong_setting_is_named_and_not_papered_over() {
        let error =
            PgBinaries::find(Path::new("/nowhere"), Some(Path::new("/nowhere/bin")), None).unwrap_err();
        assert!(error.to_string().starts_with("CORECI_PG_BIN is /nowhere/bin"), "{error}");
    }
}
