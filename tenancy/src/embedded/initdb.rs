//! Creating a cluster so that a kill at any moment leaves either none or a whole one.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::binaries::PgBinaries;
use super::error::EmbeddedError;
use super::layout::{Layout, last_words, sync_directory, unwritable, write_private};
use super::secrets_file::{Passwords, SUPERUSER};
use super::user::{ServerUser, give_to, run_as};

/// Makes sure that `layout.data()` holds a cluster, and returns its passwords.
pub(crate) fn ensure_cluster(
    layout: &Layout,
    binaries: &PgBinaries,
    user: Option<&ServerUser>,
) -> Result<Passwords, EmbeddedError> {
    let new = layout.data_new();
    remove_if_there(&new)?;
    // Left behind only by a kill during initdb.
    let _ = fs::remove_file(layout.initdb_password());
    if layout.data_major().is_some() {
        return Passwords::read(layout);
    }
    let had_passwords = layout.passwords().exists();
    let passwords = Passwords::read_or_create(layout)?;
    let made = create(layout, binaries, user, &passwords);
    if made.is_err() {
        // Nothing half-made stays: the next attempt starts from the beginning.
        let _ = fs::remove_dir_all(&new);
        if !had_passwords {
            let _ = fs::remove_file(layout.passwords());
        }
    }
    made.map(|()| passwords)
}

fn create(
    layout: &Layout,
    binaries: &PgBinaries,
    user: Option<&ServerUser>,
    passwords: &Passwords,
) -> Result<(), EmbeddedError> {
    let (new, data) = (layout.data_new(), layout.data());
    DirBuilder::new().mode(0o700).create(&new).map_err(unwritable("create", &new))?;
    give_to(&new, user).map_err(unwritable("give away", &new))?;

    // initdb reads the password from a file that its user can open, and argv would show it to everybody.
    let password_file = layout.initdb_password();
    write_private(&password_file, passwords.superuser.as_bytes())
        .map_err(unwritable("write", &password_file))?;
    give_to(&password_file, user).map_err(unwritable("give away", &password_file))?;
    let made = run_initdb(&new, binaries, user, &password_file);
    fs::remove_file(&password_file).map_err(unwritable("remove", &password_file))?;
    made?;

    fs::rename(&new, &data).map_err(unwritable("create", &data))?;
    sync_directory(&data).map_err(unwritable("sync", layout.root()))
}

fn run_initdb(
    new: &Path,
    binaries: &PgBinaries,
    user: Option<&ServerUser>,
    password_file: &Path,
) -> Result<(), EmbeddedError> {
    let program = binaries.program("initdb");
    let mut command = Command::new(&program);
    command
        .arg("--pgdata")
        .arg(new)
        .args(["--username", SUPERUSER, "--auth", "scram-sha-256"])
        .args(["--encoding", "UTF8", "--locale", "C", "--no-instructions"])
        .arg("--pwfile")
        .arg(password_file)
        // The working directory may be closed to the server's user.
        .current_dir("/")
        .env_remove("PGDATA")
        .stdin(Stdio::null());
    run_as(&mut command, user);
    let output = command.output().map_err(|source| EmbeddedError::Spawn { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(EmbeddedError::Initdb { output: last_words(&String::from_utf8_lossy(&output.stderr)) })
}

fn remove_if_there(path: &Path) -> Result<(), EmbeddedError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritable("remove", path)(error)),
        _ => Ok(()),
    }
}
