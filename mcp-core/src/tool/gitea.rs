//! Arguments and results of the Gitea and Forgejo tools. Results have the shape of the GitHub ones, so that a model
//! reads one form of repository and one form of run; what some servers cannot say is optional here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Extent;
pub use super::github::{Repo, RepoList};

/// Arguments of `gitea.list_repos`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListReposArgs {
    /// Id or name of the Gitea target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
}

/// Arguments of `gitea.get_recent_ci_runs`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRecentCiRunsArgs {
    /// Id or name of the Gitea target; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// Owner of the repository.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"))]
    pub owner: String,
    /// Name of the repository.
    #[schemars(regex(pattern = r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}$"))]
    pub repo: String,
    /// How many runs, 30 by default.
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<u32>,
}

/// One workflow run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CiRun {
    /// The forge's number for it; absent when the source is `tasks`, which do not name their run by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Number within its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_number: Option<u64>,
    /// File name of the workflow.
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
    /// Where it stands: `queued`, `waiting`, `in_progress`, `completed` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<String>,
    /// Its page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html_url: Option<String>,
    /// Creation or, where the server does not tell it, start, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Last change or, where the server does not tell it, end, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// Result of `gitea.get_recent_ci_runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CiRunList {
    /// How many runs there are in all; absent where the server counts only jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_count: Option<u64>,
    /// The runs.
    pub runs: Vec<CiRun>,
    /// Where the runs come from: `runs`, or `tasks` on older servers, which know jobs only.
    pub source: String,
    /// What was left out.
    #[serde(flatten)]
    pub extent: Extent,
}
