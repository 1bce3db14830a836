//! Runs an admitted command: a fixed program by its absolute path, arguments as a list, nothing inherited.
//!
//! There is no shell, and no way in from outside this crate: [`Admitted`] is made by the whitelist and the local policy
//! only, and [`Program`] is private.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_core::relay::{
    COMMAND_TIMEOUT_MS, CommandOutcome, FailureCode, MAX_COMMANDS, MAX_STDERR_BYTES, MAX_STDOUT_BYTES,
    RanCommand,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command as Process};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::capture::{Captured, drain};
use crate::local_policy::Admitted;
use crate::whitelist::Command;

/// Where the programs are looked for. Never `$PATH`: whoever sets it would choose what runs (CASES C-G15).
const FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];

/// All that a program finds in its environment. No pager, no colours, no translation, no preloaded library.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("PATH", "/usr/bin:/bin"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("SYSTEMD_PAGER", "cat"),
    ("SYSTEMD_COLORS", "0"),
    ("TERM", "dumb"),
];

/// Children that may exist at once, the killed ones that the kernel has not let go of included. `df` on a dead network
/// file system cannot be killed; without this bound each attempt would leave one more process behind.
const MOST_CHILDREN: usize = 2 * MAX_COMMANDS;

/// The user that commands run as, when the agent itself is root (as `dev` in a container may be).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id; there are no supplementary groups.
    pub gid: u32,
}

/// Starts commands and remembers how many are still there. One per agent, whatever becomes of its links.
#[derive(Debug)]
pub(crate) struct Executor {
    run_as: Option<RunAs>,
    children: Arc<Semaphore>,
    programs: fn(&Command) -> Option<Program>,
}

/// What is started for a command.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    args: Vec<String>,
}

impl Executor {
    pub(crate) fn new(run_as: Option<RunAs>) -> Self {
        Self { run_as, children: Arc::new(Semaphore::new(MOST_CHILDREN)), programs: Program::of }
    }

    /// Runs a command to its end, or kills it with all its children after `timeout_ms` or 9.5 s.
    ///
    /// Dropping the future kills it too. Neither waits for a process that the kernel does not let go of.
    pub(crate) async fn run(&self, admitted: Admitted, timeout_ms: u64) -> CommandOutcome {
        let limit = Duration::from_millis(timeout_ms.min(COMMAND_TIMEOUT_MS));
        match (self.programs)(admitted.command()) {
            Some(program) => self.run_program(&program, limit).await,
            None => CommandOutcome::failed(
                FailureCode::SpawnFailed,
                "the program of this command is not installed on the host",
            ),
        }
    }

    async fn run_program(&self, program: &Program, limit: Duration) -> CommandOutcome {
        let Ok(place) = Arc::clone(&self.children).try_acquire_owned() else {
            return CommandOutcome::failed(
                FailureCode::Busy,
                "too many earlier commands hang on the host and cannot be killed",
            );
        };
        let mut running = match Running::start(program, self.run_as, place) {
            Ok(running) => running,
            Err(error) => {
                let why = format!("the program could not be started: {}", error.kind());
                return CommandOutcome::failed(FailureCode::SpawnFailed, why);
            }
        };
        match tokio::time::timeout(limit, running.finish()).await {
            Ok(Ok((status, stdout, stderr))) => ran(status, stdout, stderr),
            Ok(Err(error)) => {
                let why = format!("the program could not be waited for: {}", error.kind());
                CommandOutcome::failed(FailureCode::SpawnFailed, why)
            }
            Err(_) => CommandOutcome::failed(
                FailureCode::Timeout,
                format!("the command did not finish within {} ms and was killed", limit.as_millis()),
            ),
        }
    }
}

/// The six commands and whether their programs are there, for `doctor`.
pub(crate) fn find_programs() -> impl Iterator<Item = (&'static str, Option<PathBuf>)> {
    ["uptime", "df", "free", "systemctl", "journalctl"].into_iter().map(|name| (name, find(name)))
}

fn find(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

impl Program {
    /// The program of a command; `None` when this host does not have it.
    fn of(command: &Command) -> Option<Self> {
        let (name, args): (_, &[&str]) = match command {
            Command::Uptime => ("uptime", &[]),
            Command::DiskFree => ("df", &["-h"]),
            Command::MemoryFree => ("free", &["-m"]),
            // `--` ends the options: the second lock on a name that begins with a dash.
            Command::UnitStatus(unit) => {
                ("systemctl", &["--no-pager", "--full", "status", "--", unit.as_str()])
            }
            Command::Journal(lines) => ("journalctl", &["--no-pager", "-n", &lines.get().to_string()]),
            Command::ListServices => {
                ("systemctl", &["--no-pager", "--plain", "list-units", "--type=service"])
            }
        };
        Some(Self { path: find(name)?, args: args.iter().map(|&arg| arg.to_owned()).collect() })
    }
}

/// A started program. While the child is not reaped its process id cannot be given to anybody else, so killing its group
/// cannot hit a stranger; that is why the pipes are read to their end before the child is waited for.
struct Running {
    child: Option<Child>,
    place: Option<OwnedSemaphorePermit>,
    runtime: Handle,
}

impl Running {
    fn start(program: &Program, run_as: Option<RunAs>, place: OwnedSemaphorePermit) -> std::io::Result<Self> {
        let mut process = Process::new(&program.path);
        process
            .args(&program.args)
            .env_clear()
            .envs(ENVIRONMENT)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(RunAs { uid, gid }) = run_as {
            process.uid(uid).gid(gid);
        }
        Ok(Self { child: Some(process.spawn()?), place: Some(place), runtime: Handle::current() })
    }

    async fn finish(&mut self) -> std::io::Result<(ExitStatus, Captured, Captured)> {
        let child = self.child.as_mut().expect("the child is there until it has finished");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let (stdout, stderr) = tokio::join!(drain(stdout, MAX_STDOUT_BYTES), drain(stderr, MAX_STDERR_BYTES));
        let status = child.wait().await?;
        self.child = None;
        Ok((status, stdout, stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It fails only when the group is gone already, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let place = self.place.take();
        // A killed process may stay for as long as the kernel waits for a disk; nobody waits for it but this task, and
        // its place stays taken meanwhile.
        self.runtime.spawn(async move {
            let _ = child.wait().await;
            drop(place);
        });
    }
}

/// A command that ran. Which exit code means what is for the reader to say: `systemctl status` answers 3 for a unit that
/// is stopped, and "System has not been booted with systemd" is an answer too.
fn ran(status: ExitStatus, stdout: Captured, stderr: Captured) -> CommandOutcome {
    let (stdout, stdout_cut) = stdout.into_text(MAX_STDOUT_BYTES);
    let (stderr, stderr_cut) = stderr.into_text(MAX_STDERR_BYTES);
    let exit_code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    CommandOutcome::Ran(RanCommand { stdout, stderr, exit_code, truncated: stdout_cut || stderr_cut })
}

#[cfg(test)]
pub(crate) mod tests;
