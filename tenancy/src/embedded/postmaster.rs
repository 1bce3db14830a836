//! `postmaster.pid`: what a server says about itself.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

/// The lines of `postmaster.pid` that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: i32,
    pub(crate) port: u16,
    pub(crate) socket_dir: PathBuf,
    pub(crate) ready: bool,
}

impl PidFile {
    pub(crate) fn read(data: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }

    /// True when the process exists (it may be anybody's: pids are used again).
    pub(crate) fn is_alive(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        // EPERM says that it exists and belongs to somebody else, as it does for a server that root gave away.
        matches!(test_kill_process(pid), Ok(()) | Err(rustix::io::Errno::PERM))
    }

    /// True when something listens on the socket, which a pid alone does not prove.
    pub(crate) fn answers(&self) -> bool {
        let socket = self.socket_dir.join(format!(".s.PGSQL.{}", self.port));
        std::os::unix::net::UnixStream::connect(socket).is_ok()
    }

    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        Some(Self {
            pid: lines.first()?.trim().parse().ok().filter(|pid| *pid > 0)?,
            port: lines.get(3)?.trim().parse().ok()?,
            socket_dir: PathBuf::from(*lines.get(4)?),
            ready: lines.get(7).is_some_and(|status| status.trim() == "ready"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_eight_says_whether_the_server_is_ready() {
        let text = "4711\n/data\n1700000000\n5432\n/run/x\n\n  1234  5\nready   \n";
        let parsed = PidFile::parse(text).unwrap();
        assert_eq!((parsed.pid, parsed.port, parsed.ready), (4711, 5432, true));

        assert!(!PidFile::parse(&text.replace("ready   ", "starting")).unwrap().ready);
        assert_eq!(PidFile::parse("4711\n/data\n"), None);
        assert_eq!(PidFile::parse(&text.replace("4711", "-1")), None);
    }
}
