//! A server in a process of its own, which ends with this one.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// A server that runs until this is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    /// Where it listens: `host:port`.
    pub(crate) address: String,
    /// The credential that it takes.
    pub(crate) key: String,
}

impl Child {
    /// Starts this program as the server of this kind, and waits for the line that says where it listens.
    pub(crate) fn start(kind: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["__serve", kind]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, key) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        Self { process, address: address.to_owned(), key: key.to_owned() }
    }

    /// A program of others, which listens here already.
    pub(crate) fn of(process: std::process::Child, address: String, key: &str) -> Self {
        Self { process, address, key: key.to_owned() }
    }

    /// The peak of its resident memory so far.
    pub(crate) fn peak_mib(&self) -> f64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Ours end with their input, and take their databases with them.
        if self.process.stdin.take().is_none() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
