//! Arguments and results of the GitHub tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Extent;

/// Arguments of `github.list_repos`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListReposArgs {
    /// Id or name of the GitHub target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
}

/// Arguments of `github.get_recent_ci_runs`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRecentCiRunsArgs {
    /// Id or name of the GitHub target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Owner of the repository.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"))]
    pub owner: String,
    /// Name of the repository.
    #[schemars(regex(pattern = r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}$"))]
    pub repo: String,
    /// How many runs, 30 by default.
    #[schemars(range(min = 1, max = 100))]
    pub per_page: Option<u32>,
    /// Only runs in this state.
    pub status: Option<RunStatus>,
    /// Only runs of this branch.
    #[schemars(length(min = 1, max = 255))]
    pub branch: Option<String>,
}

/// Arguments of `github.get_workflow_run`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWorkflowRunArgs {
    /// Id or name of the GitHub target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Owner of the repository.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"))]
    pub owner: String,
    /// Name of the repository.
    #[schemars(regex(pattern = r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}$"))]
    pub repo: String,
    /// Number of the run, as in its address.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub run_id: u64,
}

/// The states that GitHub can filter runs by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Completed,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    ActionRequired,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Cancelled,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Failure,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Neutral,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Skipped,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Stale,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Success,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    TimedOut,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    InProgress,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Queued,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Requested,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Waiting,
    #[expect(missing_docs, reason = "the words are GitHub's own")]
    Pending,
}

/// One repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repo {
    /// The forge's number for it.
    pub id: u64,
    /// Name without owner.
    pub name: String,
    /// `owner/name`.
    pub full_name: String,
    /// Owner.
    pub owner: String,
    /// True when it is not public.
    pub private: bool,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its page.
    pub html_url: String,
    /// Default branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
    /// Last change, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// Result of `github.list_repos`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepoList {
    /// The repositories.
    pub repos: Vec<Repo>,
    /// What was left out.
    #[serde(flatten)]
    pub extent: Extent,
}

/// One workflow run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CiRun {
    /// The forge's number for it.
    pub id: u64,
    /// Number within its workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_number: Option<u64>,
    /// Name of the workflow or run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_branch: Option<String>,
    /// Commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_sha: Option<String>,
    /// What started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
    /// Its page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html_url: Option<String>,
    /// Start, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Last change, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// Result of `github.get_recent_ci_runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CiRunList {
    /// How many runs match in all, as far as the forge says.
    pub total_count: u64,
    /// The runs.
    pub runs: Vec<CiRun>,
    /// What was left out.
    #[serde(flatten)]
    pub extent: Extent,
}
