//! The thread that owns the server process: starts it, waits for it, starts it again.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::watch;

use super::binaries::PgBinaries;
use super::error::EmbeddedError;
use super::layout::Layout;
use super::postmaster::PidFile;
use super::supervised::SuperviseCommand;
use super::user::{ServerUser, run_as};

/// After a crash the old server's children need a moment before its lock file and shared memory are free.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Replaying the log of a busy server can take a while.
const READY_PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A server that lived this long has earned a quick restart.
const HEALTHY: Duration = Duration::from_secs(60);

/// What the server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbeddedStatus {
    /// Started, not ready yet.
    Starting,
    /// Ready for connections.
    Ready {
        /// The process id of this run of the server.
        pid: i32,
    },
    /// It ended by itself; it will be started again.
    Restarting {
        /// How it ended.
        reason: String,
    },
    /// It was stopped, or its first start failed.
    Stopped,
}

/// What to run, as whom.
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    pub(crate) binaries: PgBinaries,
    pub(crate) supervise: SuperviseCommand,
    pub(crate) socket_dir: PathBuf,
    pub(crate) user: Option<ServerUser>,
}

/// A handle to the thread. The thread ends after [`Supervisor::stop`], or with the process.
pub(crate) struct Supervisor {
    control: Arc<Control>,
    status: watch::Receiver<EmbeddedStatus>,
}

impl Supervisor {
    /// Starts the thread. `first` hears how the first start went. `lock` is held for as long as the thread lives.
    pub(crate) fn spawn(
        plan: Plan,
        lock: std::fs::File,
        first: tokio::sync::oneshot::Sender<Result<(), EmbeddedError>>,
    ) -> std::io::Result<Self> {
        let control = Arc::new(Control::default());
        let (sender, status) = watch::channel(EmbeddedStatus::Starting);
        let shared = Arc::clone(&control);
        // The death signal fires when the *thread* that spawned the child ends, so the child gets a thread of its own
        // that lives exactly as long as the server may.
        std::thread::Builder::new().name("coreci-postgres".to_owned()).spawn(move || {
            run(&plan, &shared, &sender, first);
            // A socket directory outside the data directory is not left lying about; it is empty once the server ended.
            if !plan.socket_dir.starts_with(plan.layout.root()) {
                let _ = std::fs::remove_dir(&plan.socket_dir);
            }
            sender.send_replace(EmbeddedStatus::Stopped);
            drop(lock);
        })?;
        Ok(Self { control, status })
    }

    pub(crate) fn status(&self) -> watch::Receiver<EmbeddedStatus> {
        self.status.clone()
    }

    /// Asks the server to end and not to be started again. SIGINT: a fast shutdown; SIGQUIT: at once.
    pub(crate) fn stop(&self, signal: Signal) {
        self.control.stop(signal);
    }
}

#[derive(Default)]
struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopping: bool,
    /// The child, while it is not reaped: its pid cannot belong to anybody else.
    child: Option<Pid>,
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is two plain values: a panic elsewhere cannot leave it half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, signal: Signal) {
        let mut state = self.lock();
        state.stopping = true;
        if let Some(pid) = state.child {
            let _ = kill_process(pid, signal);
        }
        self.changed.notify_all();
    }

    fn stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Sleeps, unless a stop is asked for.
    fn pause(&self, time: Duration) {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.stopping);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Spawns under the lock, so that a stop either comes before and prevents it, or after and signals it.
    fn spawn(&self, command: &mut Command) -> std::io::Result<Option<Child>> {
        let mut state = self.lock();
        if state.stopping {
            return Ok(None);
        }
        let child = command.spawn()?;
        state.child = Pid::from_raw(child.id().cast_signed());
        Ok(Some(child))
    }

    /// Waits without reaping, so that the pid stays ours until nobody can signal it any more.
    fn wait(&self, child: &mut Child) -> std::io::Result<std::process::ExitStatus> {
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        self.lock().child = None;
        child.wait()
    }

    fn has_ended(&self, child: &Child) -> bool {
        let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None) | Err(rustix::io::Errno::INTR))
    }
}

fn run(
    plan: &Plan,
    control: &Control,
    status: &watch::Sender<EmbeddedStatus>,
    first: tokio::sync::oneshot::Sender<Result<(), EmbeddedError>>,
) {
    let mut first = Some(first);
    let begun = Instant::now();
    let mut backoff = FIRST_BACKOFF;
    while !control.stopping() {
        let started = Instant::now();
        let log_from = plan.layout.log_length();
        let reason = match one_life(plan, control, status, &mut first) {
            Ok(reason) => reason,
            Err(error) => {
                if let Some(first) = first.take() {
                    let _ = first.send(Err(error));
                    return;
                }
                error.to_string()
            }
        };
        if control.stopping() {
            return;
        }
        let said = plan.layout.log_since(log_from);
        if first.is_some() {
            // Only a lock that is still held is worth waiting for at the first start; every other reason would repeat.
            let held = said.contains("lock file") || said.contains("shared memory block");
            if !held || begun.elapsed() > LOCK_PATIENCE {
                if let Some(first) = first.take() {
                    let _ = first.send(Err(EmbeddedError::NotReady { log: plan.layout.log(), output: said }));
                }
                return;
            }
            control.pause(FIRST_BACKOFF);
            continue;
        }
        tracing::warn!(reason, said, "the embedded database ended and is started again");
        status.send_replace(EmbeddedStatus::Restarting { reason });
        if started.elapsed() > HEALTHY {
            backoff = FIRST_BACKOFF;
        }
        control.pause(backoff);
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

/// Runs the server once, from spawn to exit, and says how it ended.
fn one_life(
    plan: &Plan,
    control: &Control,
    status: &watch::Sender<EmbeddedStatus>,
    first: &mut Option<tokio::sync::oneshot::Sender<Result<(), EmbeddedError>>>,
) -> Result<String, EmbeddedError> {
    let spawn_error = |source| EmbeddedError::Spawn { program: plan.supervise.program.clone(), source };
    let mut command = command(plan).map_err(spawn_error)?;
    let Some(mut child) = control.spawn(&mut command).map_err(spawn_error)? else {
        return Ok("a stop was asked for".to_owned());
    };
    let pid = child.id().cast_signed();
    let deadline = Instant::now() + READY_PATIENCE;
    while !control.has_ended(&child) {
        let said = PidFile::read(&plan.layout.data());
        if said.is_some_and(|file| file.pid == pid && file.ready) {
            status.send_replace(EmbeddedStatus::Ready { pid });
            if let Some(first) = first.take() {
                let _ = first.send(Ok(()));
            }
            break;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        // Not `pause`: while a stop is on its way this still waits for the child.
        std::thread::sleep(POLL);
    }
    let exit = control.wait(&mut child).map_err(spawn_error)?;
    Ok(match (exit.code(), exit.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    })
}

fn command(plan: &Plan) -> std::io::Result<Command> {
    let log = plan.layout.open_log()?;
    let mut command = Command::new(&plan.supervise.program);
    command
        .args(&plan.supervise.args)
        .arg(std::process::id().to_string())
        .arg(plan.binaries.program("postgres"))
        .args(postgres_args(&plan.layout.data(), &plan.socket_dir))
        // The server inherits nothing of ours: not a password, not a locale, not a PG* setting.
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    run_as(&mut command, plan.user.as_ref());
    Ok(command)
}

fn postgres_args(data: &Path, socket_dir: &Path) -> Vec<OsString> {
    let mut args = vec![OsString::from("-D"), data.into()];
    // In a list of directories a comma or a space would separate; within quotes only the quote itself is special.
    let quoted = socket_dir.to_string_lossy().replace('"', "\"\"");
    for setting in [
        "listen_addresses=",
        "port=5432",
        "unix_socket_permissions=0700",
        "fsync=on",
        "full_page_writes=on",
        "synchronous_commit=on",
        "max_connections=100",
        "password_encryption=scram-sha-256",
        "logging_collector=off",
        "log_destination=stderr",
        "log_statement=none",
        "log_timezone=UTC",
        "timezone=UTC",
    ] {
        args.extend([OsString::from("-c"), setting.into()]);
    }
    args.extend([OsString::from("-c"), format!("unix_socket_directories=\"{quoted}\"").into()]);
    args
}
