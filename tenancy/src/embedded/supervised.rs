//! The child's side: a moment as our own program, between the fork and Postgres, in which the death signal is set.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// How the supervisor starts its child: `program args.. PARENT_PID POSTGRES ARGS..`. The program hands everything after
/// `args` to [`supervised_main`].
#[derive(Debug, Clone)]
pub struct SuperviseCommand {
    /// Usually `/proc/self/exe`, which a user that may not enter our directory can execute, too.
    pub program: PathBuf,
    /// Usually a hidden subcommand.
    pub args: Vec<OsString>,
}

/// Ties this process to its parent, then becomes Postgres. `args` is `PARENT_PID POSTGRES ARGS..`. Returns only when that
/// fails, with the exit code to leave with.
///
/// Must be called before any thread is started: the death signal belongs to the thread that asks for it.
pub fn supervised_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let parent: Option<i32> = args.next().and_then(|text| text.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        eprintln!("this command is started by the control plane for itself: PARENT_PID PROGRAM ARGS..");
        return ExitCode::from(2);
    };
    // Set here and not before the change of user, which clears it. SIGQUIT makes Postgres end at once and without damage;
    // it replays its log at the next start.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::QUIT)) {
        eprintln!("cannot ask for a signal at the parent's death: {error}");
        return ExitCode::FAILURE;
    }
    // The parent may have died before the signal was asked for, and then it never comes.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        eprintln!("the process that started this one has ended");
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(args).exec();
    eprintln!("cannot run {}: {error}", program.to_string_lossy());
    ExitCode::FAILURE
}
