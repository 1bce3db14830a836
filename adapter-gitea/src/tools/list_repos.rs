//! `gitea.list_repos`.

use mcp_core::error::AdapterError;
use mcp_core::tool::Extent;
use mcp_core::tool::gitea::{ListReposArgs, Repo, RepoList};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::{Answer, GiteaClient};
use crate::endpoint::{Endpoint, PageOf};
use crate::error::{forbidden, no_api};
use crate::normalise;
use crate::paging::MAX_PAGES;
use crate::token::GiteaToken;

/// Repositories that one call lists. A server that clamps its pages lower is asked for several.
const LIMIT: u32 = 50;

/// Both are needed: the path lies in the group of the user, and what it lists are repositories.
pub(crate) const SCOPES: &str = "read:user, read:repository";

pub(crate) async fn run(
    client: &GiteaClient,
    token: &GiteaToken,
    args: &Map<String, Value>,
    deadline: Instant,
) -> Result<Map<String, Value>, AdapterError> {
    let ListReposArgs { target_id: _ } = super::arguments(args)?;
    let mut repos: Vec<Repo> = Vec::new();
    let mut page = 1;
    let (total, may_continue) = loop {
        let endpoint = Endpoint::UserRepos(PageOf { page, limit: LIMIT });
        let answer = match client.ask(&endpoint, Some(token), deadline).await? {
            Answer::Page(answer) => answer,
            Answer::Forbidden(scopes) => return Err(forbidden(scopes, SCOPES)),
            Answer::NotThere => return Err(no_api()),
        };
        let before = repos.len();
        for repo in normalise::repos(answer.body())? {
            if !repos.iter().any(|seen| seen.id == repo.id) {
                repos.push(repo);
            }
        }
        let may_continue = repos.len() > before && answer.headers().may_continue(repos.len());
        if repos.len() >= LIMIT as usize || !may_continue || page == MAX_PAGES {
            break (answer.headers().total, may_continue);
        }
        page += 1;
    };
    let truncated = may_continue || repos.len() > LIMIT as usize;
    repos.truncate(LIMIT as usize);
    let omitted =
        total.map(|total| total.saturating_sub(repos.len() as u64)).filter(|left| truncated && *left > 0);
    let hint = truncated.then(|| {
        format!("the first {} repositories are listed; name owner and repo to ask about another", repos.len())
    });
    super::object(RepoList { repos, extent: Extent { truncated, omitted, hint, ..Extent::default() } })
}
