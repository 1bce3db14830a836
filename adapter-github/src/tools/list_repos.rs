//! `github.list_repos`.

use mcp_core::error::AdapterError;
use mcp_core::tool::Extent;
use mcp_core::tool::github::{ListReposArgs, RepoList};
use serde_json::{Map, Value};

use crate::client::Page;
use crate::endpoint::{Endpoint, REPOS_PER_PAGE};
use crate::normalise;

pub(crate) fn endpoint(args: &Map<String, Value>) -> Result<Endpoint, AdapterError> {
    let ListReposArgs { target_id: _ } = super::arguments(args)?;
    Ok(Endpoint::UserRepos)
}

/// The first page is the answer. How many repositories follow it is not told by GitHub, only that some do.
pub(crate) fn result(page: &Page<'_>) -> Result<Map<String, Value>, AdapterError> {
    let mut repos = normalise::repos(page.body)?;
    let surplus = repos.len().saturating_sub(REPOS_PER_PAGE as usize);
    repos.truncate(REPOS_PER_PAGE as usize);
    let truncated = page.has_next || surplus > 0;
    let hint = truncated.then(|| {
        format!("the first {} repositories are listed; name owner and repo to ask about another", repos.len())
    });
    super::object(RepoList { repos, extent: Extent { truncated, hint, ..Extent::default() } })
}
