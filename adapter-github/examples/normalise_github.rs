//! Makes rows of an answer of GitHub's, without a network.

use adapter_github::normalise;

const ANSWER: &str = r#"{
  "total_count": 2,
  "workflow_runs": [
    {"id": 30433643, "name": "Build", "run_number": 563, "event": "push", "status": "in_progress", "conclusion": null,
     "head_branch": "main", "head_sha": "009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d",
     "html_url": "https://github.com/octo-org/octo-repo/actions/runs/30433643",
     "created_at": "2026-11-30T10:00:00Z", "updated_at": "2026-11-30T10:00:09Z", "actor": {"login": "octocat"}},
    {"id": 30433642, "name": null, "run_number": 562, "event": "schedule", "status": "completed",
     "conclusion": "startup_failure", "head_branch": null, "pull_requests": null}
  ]
}"#;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let page = normalise::runs(ANSWER.as_bytes())?;
    println!("{} of {} runs", page.runs.len(), page.total_count);
    for run in page.runs {
        println!("{}", serde_json::to_string(&run)?);
    }
    Ok(())
}
