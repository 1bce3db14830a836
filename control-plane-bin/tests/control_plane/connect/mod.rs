//! `connect`: what it prints, what it writes, and that both work.

mod executed;
mod printed;
mod written;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::server::{control_plane, scratch};

/// A key that is good for nothing.
const KEY: &str = "cck_0000_not-a-key";
const URL: &str = "https://coreci.example";

/// A person's home, with a key in it.
struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { directory: scratch() };
        std::fs::write(home.path("api.key"), format!("{KEY}\n")).expect("written");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command, with this home and nothing else in its environment that it could find a client by.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = control_plane(&self.path("data"));
        for name in ["XDG_CONFIG_HOME", "APPDATA", "USERPROFILE", "CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", self.directory.path()).arg("connect").args(args);
        command
    }

    fn connect(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// As `connect`, with a server and a key in a file.
    fn with_key(&self, args: &[&str]) -> Output {
        let key = self.path("api.key");
        self.connect(&[args, &["--url", URL, "--key-file", text(&key)]].concat())
    }

    /// What is said, without what differs from one run to the next.
    fn redact(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        let said = said.replace(env!("CARGO_BIN_EXE_control-plane"), "[program]");
        said.replace(text(self.directory.path()), "[home]")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}
