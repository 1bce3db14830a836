//! Pages of `/actions/tasks`: jobs, of which runs are made by their number.

use std::collections::BTreeMap;

use mcp_core::error::AdapterError;
use mcp_core::tool::gitea::CiRun;
use serde::Deserialize;

use super::{native, page, read, said, time};
use upstream::lenient;

/// One page of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPage {
    /// The tasks, in the order in which the server has them.
    pub tasks: Vec<Task>,
}

/// One attempt at one job of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Task {
    /// Number of the task; later attempts have higher ones.
    #[serde(deserialize_with = "lenient::number")]
    pub id: u64,
    /// Number of the run that it belongs to.
    #[serde(deserialize_with = "lenient::number")]
    pub run_number: u64,
    name: Option<String>,
    workflow_id: Option<String>,
    head_branch: Option<String>,
    head_sha: Option<String>,
    event: Option<String>,
    status: Option<String>,
    url: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

#[derive(Deserialize)]
struct RawPage {
    #[serde(deserialize_with = "present")]
    workflow_runs: Option<Vec<Task>>,
}

/// The field must stand there, be it as null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Task>>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads the answer of `/repos/{owner}/{repo}/actions/tasks`. Its total is left alone: it counts tasks, not runs.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a page of tasks.
pub fn tasks(body: &[u8]) -> Result<TaskPage, AdapterError> {
    let raw: RawPage = read(body)?;
    Ok(TaskPage { tasks: raw.workflow_runs.unwrap_or_default() })
}

/// The runs that the tasks belong to, newest first, as far as the jobs that were started tell of them.
#[must_use]
pub fn grouped(tasks: &[Task]) -> Vec<CiRun> {
    let mut by_run: BTreeMap<u64, BTreeMap<u64, &Task>> = BTreeMap::new();
    for task in tasks {
        by_run.entry(task.run_number).or_default().insert(task.id, task);
    }
    by_run.iter().rev().map(|(number, tasks)| run(*number, tasks)).collect()
}

/// One run; its tasks are in the order of their ids.
fn run(number: u64, tasks: &BTreeMap<u64, &Task>) -> CiRun {
    // A job that ran again has one task for each attempt, of which the last one counts.
    let latest: BTreeMap<_, _> = tasks.values().map(|task| (task.name.as_deref(), *task)).collect();
    let states: Vec<_> = latest.values().map(|task| task.status.as_deref().unwrap_or("")).collect();
    let (status, conclusion) = native(Some(together(&states).to_owned()));
    let first = tasks.values().next();
    let field = |read: fn(&Task) -> &Option<String>| first.and_then(|task| said(read(task).clone()));
    CiRun {
        id: None,
        run_number: Some(number),
        name: field(|task| &task.workflow_id),
        head_branch: field(|task| &task.head_branch),
        head_sha: field(|task| &task.head_sha),
        event: field(|task| &task.event),
        status,
        conclusion,
        html_url: page(field(|task| &task.url)),
        created_at: first.and_then(|task| time(task.created_at.clone())),
        updated_at: tasks.values().filter_map(|task| time(task.updated_at.clone())).max(),
        actor: None,
    }
}

/// The state of a run, from the states of its jobs: what still goes on comes first, then what went wrong.
fn together<'a>(states: &[&'a str]) -> &'a str {
    const ORDER: &[&str] = &["running", "waiting", "blocked", "cancelled", "failure"];
    if let Some(state) = ORDER.iter().find(|state| states.contains(state)) {
        return state;
    }
    if states.iter().all(|state| *state == "skipped") {
        return "skipped";
    }
    if states.iter().all(|state| matches!(*state, "success" | "skipped")) { "success" } else { "unknown" }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: GT-06
    #[test]
    fn the_state_of_a_run_follows_from_its_jobs() {
        for (states, wanted) in [
            (&["success", "skipped"][..], "success"),
            (&["skipped", "skipped"], "skipped"),
            (&["success", "failure"], "failure"),
            (&["failure", "running"], "running"),
            (&["cancelled", "failure"], "cancelled"),
            (&["success", "blocked"], "blocked"),
            (&["success", "odd"], "unknown"),
        ] {
            assert_eq!(together(states), wanted, "{states:?}");
        }
    }

    #[test]
    fn the_last_attempt_at_a_job_counts_in_whatever_order_they_come() {
        let body = br#"{"total_count": 4, "workflow_runs": [
            {"id": 11, "run_number": 3, "name": "test", "status": "success", "workflow_id": "ci.yml",
             "created_at": "2026-11-30T10:05:00Z", "updated_at": "2026-11-30T10:06:00Z"},
            {"id": 9, "run_number": "3", "name": "test", "status": "failure", "workflow_id": "ci.yml",
             "created_at": "2026-11-30T10:00:00Z", "updated_at": "1970-01-01T00:00:00Z"},
            {"id": 12, "run_number": 4, "name": "test", "status": "waiting", "workflow_id": "ci.yml"},
            {"id": 10, "run_number": 3, "name": "lint", "status": "skipped", "workflow_id": "ci.yml"}]}"#;
        let runs = grouped(&tasks(body).expect("a page").tasks);
        assert_eq!(runs.len(), 2);
        assert_eq!((runs[0].run_number, runs[0].status.as_deref()), (Some(4), Some("queued")));
        assert_eq!((runs[1].run_number, runs[1].conclusion.as_deref()), (Some(3), Some("success")));
        assert_eq!(runs[1].created_at.as_deref(), Some("2026-11-30T10:00:00Z"));
        assert_eq!(runs[1].updated_at.as_deref(), Some("2026-11-30T10:06:00Z"));
        assert_eq!(runs[1].id, None);
    }
}
