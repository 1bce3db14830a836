//! Makes rows of the answers of three kinds of server, without a network.

use adapter_gitea::normalise;
use mcp_core::tool::gitea::CiRun;

const GITEA_1_25: &str = r#"{"total_count": 1, "workflow_runs": [
  {"id": 41, "run_number": 17, "path": "ci.yml@refs/heads/main", "display_title": "Fix", "event": "push",
   "status": "completed", "conclusion": "success", "head_branch": "main", "head_sha": "d64e081bf6",
   "started_at": "2026-11-30T10:00:00Z", "completed_at": "2026-11-30T10:03:00Z", "actor": {"login": "octo"}}]}"#;

const FORGEJO_15: &str = r#"{"total_count": 1, "workflow_runs": [
  {"id": 41, "index_in_repo": 17, "workflow_id": "ci.yml", "title": "Fix", "prettyref": "main", "event": "push",
   "commit_sha": "d64e081bf6", "status": "running", "created": "2026-11-30T10:00:00Z",
   "stopped": "1970-01-01T00:00:00Z", "trigger_user": {"login": "octo"}}]}"#;

const GITEA_1_23: &str = r#"{"total_count": 2, "workflow_runs": [
  {"id": 92, "run_number": 17, "name": "test", "workflow_id": "ci.yml", "status": "failure", "head_branch": "main"},
  {"id": 91, "run_number": 17, "name": "lint", "workflow_id": "ci.yml", "status": "success", "head_branch": "main"}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print("Gitea 1.25, runs", &normalise::runs(GITEA_1_25.as_bytes())?.runs)?;
    print("Forgejo 15, runs", &normalise::runs(FORGEJO_15.as_bytes())?.runs)?;
    let tasks = normalise::tasks(GITEA_1_23.as_bytes())?.tasks;
    print("Gitea 1.23, tasks", &normalise::grouped(&tasks))
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn print(server: &str, runs: &[CiRun]) -> Result<(), Box<dyn std::error::Error>> {
    for run in runs {
        println!("{server}: {}", serde_json::to_string(run)?);
    }
    Ok(())
}
