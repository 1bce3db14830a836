//! Real processes: the six programs of this machine, and stand-ins for programs that misbehave.

use std::time::Instant;

use super::*;
use crate::local_policy::LocalPolicy;

/// An executor that hangs whatever it is asked to run.
pub(crate) fn hanging_executor() -> Executor {
    Executor { programs: |_| Some(Program::stand_in("/usr/bin/sleep", &["1000"])), ..Executor::new(None) }
}

impl Program {
    fn stand_in(path: &str, args: &[&str]) -> Self {
        Self { path: path.into(), args: args.iter().map(|&arg| arg.to_owned()).collect() }
    }
}

impl Executor {
    /// Waits until every child was reaped.
    pub(crate) async fn idle(&self) {
        let all = self.children.acquire_many(u32::try_from(MOST_CHILDREN).unwrap());
        let idle = tokio::time::timeout(Duration::from_secs(10), all).await;
        drop(idle.expect("a child was not reaped").expect("the semaphore is open"));
    }

    async fn stand_in(&self, path: &str, args: &[&str], limit: Duration) -> CommandOutcome {
        self.run_program(&Program::stand_in(path, args), limit).await
    }
}

fn admitted(text: &str) -> Admitted {
    LocalPolicy::all_six().admit(text).unwrap()
}

fn ran(outcome: CommandOutcome) -> RanCommand {
    match outcome {
        CommandOutcome::Ran(ran) => ran,
        CommandOutcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

fn failure(outcome: &CommandOutcome) -> FailureCode {
    match outcome {
        CommandOutcome::Failed { code, exit_code: -1, .. } => *code,
        CommandOutcome::Failed { .. } | CommandOutcome::Ran(_) => panic!("{outcome:?}"),
    }
}

/// Process ids whose command line contains a word, zombies excluded (they have none).
fn processes_with(word: &str) -> Vec<i32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|arg| arg == word.as_bytes())
        })
        .collect()
}

async fn eventually(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(10), "it never happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const LONG: Duration = Duration::from_secs(9);

// proves: H-02, H-08, C-G02, C-G08
#[test]
fn each_command_is_one_fixed_program_with_its_arguments_as_a_list() {
    for (text, name, args) in [
        ("uptime", "uptime", &[][..]),
        ("df -h", "df", &["-h"]),
        ("free -m", "free", &["-m"]),
        ("systemctl status a@b", "systemctl", &["--no-pager", "--full", "status", "--", "a@b"]),
        ("journalctl -n 50", "journalctl", &["--no-pager", "-n", "50"]),
        (
            "systemctl list-units --type=service",
            "systemctl",
            &["--no-pager", "--plain", "list-units", "--type=service"],
        ),
    ] {
        // A program that is missing on this machine has no path to compare.
        if let Some(program) = Program::of(admitted(text).command()) {
            assert!(program.path.is_absolute());
            assert_eq!(program.path.file_name().unwrap(), name);
            assert_eq!(program.args, args);
        }
    }
}

// proves: H-01, C-G01
#[tokio::test]
async fn uptime_runs() {
    let ran = ran(Executor::new(None).run(admitted("uptime"), 9_500).await);
    assert_eq!((ran.exit_code, ran.truncated, ran.stderr.as_str()), (0, false, ""));
    assert!(ran.stdout.contains("load average"), "{}", ran.stdout);
}

// proves: H-08, C-G08
#[tokio::test]
async fn arguments_arrive_as_they_are_and_no_shell_reads_them() {
    let args = ["%s|", "a; id", "$(id)", "`id`", "*", "a b", ""];
    let ran = ran(Executor::new(None).stand_in("/usr/bin/printf", &args, LONG).await);
    assert_eq!(ran.stdout, "a; id|$(id)|`id`|*|a b||");
}

// proves: H-08, C-G08
#[tokio::test]
async fn the_program_is_a_direct_child_and_leads_its_own_group() {
    let executor = Arc::new(Executor::new(None));
    let task = tokio::spawn({
        let executor = Arc::clone(&executor);
        async move { executor.stand_in("/usr/bin/sleep", &["1000.001"], LONG).await }
    });
    eventually(|| processes_with("1000.001").len() == 1).await;
    let pid = processes_with("1000.001")[0];
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<i32> =
        stat.rsplit_once(')').unwrap().1.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let (parent, group) = (fields[0], fields[1]);
    assert_eq!(parent, std::process::id().cast_signed(), "no shell stands in between");
    assert_eq!(group, pid);
    task.abort();
    executor.idle().await;
    assert!(processes_with("1000.001").is_empty());
}

// proves: C-G15
#[tokio::test]
async fn nothing_of_the_agents_environment_is_handed_down() {
    let executor = Executor::new(None);
    let mut environment: Vec<_> = ENVIRONMENT.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let seen = ran(executor.stand_in("/usr/bin/env", &[], LONG).await).stdout;
    let mut seen: Vec<_> = seen.lines().map(str::to_owned).collect();
    environment.sort();
    seen.sort();
    assert_eq!(seen, environment);
    assert_eq!(ran(executor.stand_in("/usr/bin/pwd", &[], LONG).await).stdout, "/\n");
    assert_eq!(ran(executor.stand_in("/usr/bin/cat", &[], LONG).await).stdout, "", "input is empty");
}

// proves: C-G16
#[tokio::test]
async fn a_program_that_fails_has_answered() {
    let executor = Executor::new(None);
    let missing = ran(executor.stand_in("/usr/bin/cat", &["/nonexistent"], LONG).await);
    assert_eq!(missing.exit_code, 1);
    assert!(missing.stderr.contains("No such file"), "{}", missing.stderr);
    let killed =
        ran(executor.stand_in("/usr/bin/timeout", &["-s", "KILL", "0.01", "sleep", "9"], LONG).await);
    assert_eq!(killed.exit_code, 137);
    let not_there = executor.stand_in("/nonexistent/program", &[], LONG).await;
    assert_eq!(failure(&not_there), FailureCode::SpawnFailed);
    executor.idle().await;
}

// proves: C-G18, H-11
#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_its_children() {
    let executor = Executor::new(None);
    // `timeout` starts a child and, told to stay in the foreground, leaves it in its own group.
    let args = ["--foreground", "1000", "sleep", "1000.002"];
    let started = Instant::now();
    let outcome = executor.stand_in("/usr/bin/timeout", &args, Duration::from_millis(300)).await;
    assert_eq!(failure(&outcome), FailureCode::Timeout);
    assert!(started.elapsed() < Duration::from_secs(5));
    executor.idle().await;
    eventually(|| processes_with("1000.002").is_empty()).await;
}

// proves: C-G18
#[tokio::test]
async fn dropping_the_future_kills_and_a_stopped_process_dies_too() {
    let executor = Arc::new(Executor::new(None));
    let task = tokio::spawn({
        let executor = Arc::clone(&executor);
        async move { executor.stand_in("/usr/bin/sleep", &["1000.003"], LONG).await }
    });
    eventually(|| processes_with("1000.003").len() == 1).await;
    let pid = Pid::from_raw(processes_with("1000.003")[0]).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    task.abort();
    executor.idle().await;
    assert!(processes_with("1000.003").is_empty());
    assert!(!Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists(), "no zombie stays");
}

// proves: C-G18
#[test]
fn a_runtime_that_ends_takes_its_commands_along() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(async {
        tokio::spawn(async {
            let executor = Executor::new(None);
            executor.stand_in("/usr/bin/sleep", &["1000.004"], LONG).await
        });
        eventually(|| processes_with("1000.004").len() == 1).await;
    });
    drop(first);
    runtime().block_on(eventually(|| processes_with("1000.004").is_empty()));
}

// proves: C-G18
#[tokio::test]
async fn the_wire_can_shorten_the_limit() {
    let executor = hanging_executor();
    let outcome = executor.run(admitted("uptime"), 50).await;
    assert_eq!(failure(&outcome), FailureCode::Timeout);
    executor.idle().await;
}

// proves: H-11
#[tokio::test(start_paused = true)]
async fn the_wire_cannot_lengthen_the_limit() {
    let executor = hanging_executor();
    let started = tokio::time::Instant::now();
    let outcome = executor.run(admitted("uptime"), u64::MAX).await;
    assert_eq!(failure(&outcome), FailureCode::Timeout);
    assert_eq!(started.elapsed().as_millis(), 9_500);
}

#[tokio::test]
async fn children_that_do_not_go_away_are_bounded() {
    let executor = Executor::new(None);
    let stuck = Arc::clone(&executor.children).acquire_many_owned(8).await.unwrap();
    assert_eq!(failure(&executor.run(admitted("uptime"), 9_500).await), FailureCode::Busy);
    drop(stuck);
    assert_eq!(ran(executor.run(admitted("uptime"), 9_500).await).exit_code, 0);
}

// proves: C-M20
#[tokio::test]
async fn a_flood_is_cut_drained_and_still_fits_a_frame() {
    let executor = Executor::new(None);
    for byte in ["\\\"", "\\377", "\\001x", "\\n"] {
        // 400 kB of it: `printf` repeats its format for each argument.
        let format = format!("{byte}{byte}%.0s");
        let many = vec!["1"; 100_000];
        let args: Vec<_> = std::iter::once(format.as_str()).chain(many).collect();
        let flood = ran(executor.stand_in("/usr/bin/printf", &args, LONG).await);
        assert_eq!(flood.exit_code, 0, "it was read to its end");
        assert!(flood.truncated && flood.stdout.len() <= MAX_STDOUT_BYTES);
        let frame = mcp_core::relay::AgentFrame::ToolResult {
            call_id: mcp_core::id::CorrelationId::from_ulid(ulid::Ulid(1)),
            outcome: CommandOutcome::Ran(flood),
        };
        assert!(frame.to_text().len() < mcp_core::relay::MAX_FRAME_BYTES);
    }
}

#[tokio::test]
async fn commands_can_run_as_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let executor = Executor::new(Some(RunAs { uid: 65534, gid: 65534 }));
    let who = ran(executor.stand_in("/usr/bin/id", &[], LONG).await).stdout;
    assert!(who.starts_with("uid=65534") && !who.contains("(root)"), "{who}");
}
