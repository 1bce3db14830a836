//! Arguments and results of the Gitea and Forgejo tools. Results have the shape of the GitHub ones, so that a model
//! reads one form of repository and one form of run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Extent;
pub use super::github::{CiRun, Repo, RepoList};

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
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"))]
    pub repo: String,
    /// How many runs, 30 by default.
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<u32>,
}

/// Result of `gitea.get_recent_ci_runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CiRunList {
    /// How many runs match in all, as far as the forge says.
    pub total_count: u64,
    /// The runs.
    pub runs: Vec<CiRun>,
    /// Where the runs come from: `runs`, or `tasks` on older servers, which know jobs only.
    pub source: String,
    /// What was left out.
    #[serde(flatten)]
    pub extent: Extent,
}
