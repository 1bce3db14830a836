//! `gitea.get_recent_ci_runs`.

use mcp_core::error::AdapterError;
use mcp_core::tool::gitea::GetRecentCiRunsArgs;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::GiteaClient;
use crate::endpoint::RepoPath;
use crate::ladder::Question;
use crate::token::GiteaToken;

const DEFAULT_LIMIT: u32 = 30;
const MAX_LIMIT: u32 = 50;

pub(crate) async fn run(
    client: &GiteaClient,
    token: &GiteaToken,
    args: &Map<String, Value>,
    deadline: Instant,
) -> Result<Map<String, Value>, AdapterError> {
    let args: GetRecentCiRunsArgs = super::arguments(args)?;
    let unfit = || AdapterError::NotFound("no forge has a repository of such a name".to_owned());
    let repo = RepoPath::parse(&args.owner, &args.repo).ok_or_else(unfit)?;
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    super::object(Question { client, token, repo, limit, deadline }.answer().await?)
}
