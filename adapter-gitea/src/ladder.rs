//! The feature ladder: what a server can tell about runs is found by asking, never by its version.
//!
//! `runs` (Gitea 1.25+, some Forgejos) → 404 → `tasks` (Gitea 1.23+, Forgejo 8+) → 404 → is the repository there at all?
//! A 403 on either rung is a missing scope, or Actions that are switched off; the repository tells which.

use mcp_core::error::AdapterError;
use mcp_core::tool::Extent;
use mcp_core::tool::gitea::{CiRun, CiRunList};
use tokio::time::Instant;

use crate::client::{Answer, GiteaClient, Page};
use crate::endpoint::{Endpoint, PageOf, RepoPath};
use crate::error::forbidden;
use crate::normalise;
use crate::paging::MAX_PAGES;
use crate::token::GiteaToken;

/// Jobs asked for in one page: the most that a server gives by default.
const TASKS_PER_PAGE: u32 = 50;

/// One question about the recent runs of a repository.
pub(crate) struct Question<'a> {
    pub(crate) client: &'a GiteaClient,
    pub(crate) token: &'a GiteaToken,
    pub(crate) repo: RepoPath,
    pub(crate) limit: u32,
    pub(crate) deadline: Instant,
}

impl Question<'_> {
    /// Goes up the ladder.
    pub(crate) async fn answer(&self) -> Result<CiRunList, AdapterError> {
        match self.ask(&self.runs(1)).await? {
            Answer::Page(first) => self.collect_runs(first).await,
            Answer::Forbidden(scopes) => Err(self.why_forbidden(scopes).await),
            Answer::NotThere => match self.ask(&self.tasks(1)).await? {
                Answer::Page(first) => self.collect_tasks(first).await,
                Answer::Forbidden(scopes) => Err(self.why_forbidden(scopes).await),
                Answer::NotThere => Err(self.why_not_there().await),
            },
        }
    }

    async fn collect_runs(&self, first: Page) -> Result<CiRunList, AdapterError> {
        let wanted = self.limit as usize;
        let mut runs: Vec<CiRun> = Vec::new();
        let (mut page, mut number) = (first, 1);
        let (total_count, may_continue) = loop {
            let normalise::RunPage { total_count, runs: rows } = normalise::runs(page.body())?;
            let before = runs.len();
            for row in rows {
                // A run that starts between two pages moves every other one by a row.
                if !runs.iter().any(|run| run.id == row.id) {
                    runs.push(row);
                }
            }
            let mut headers = page.headers();
            headers.total = headers.total.or(total_count);
            let grew = runs.len() > before;
            let may_continue = grew && headers.may_continue(runs.len());
            if runs.len() >= wanted || !may_continue || number == MAX_PAGES {
                break (total_count, may_continue);
            }
            number += 1;
            page = match self.ask(&self.runs(number)).await? {
                Answer::Page(page) => page,
                Answer::Forbidden(_) | Answer::NotThere => return Err(changed()),
            };
        };
        let surplus = runs.len().saturating_sub(wanted);
        runs.truncate(wanted);
        let omitted =
            total_count.map(|total| total.saturating_sub(runs.len() as u64)).filter(|left| *left > 0);
        let extent = extent(may_continue || surplus > 0, omitted);
        Ok(CiRunList { total_count, runs, source: "runs".to_owned(), extent })
    }

    /// Reads jobs until they make one run more than wanted: the oldest run that was begun may go on in the next page.
    async fn collect_tasks(&self, first: Page) -> Result<CiRunList, AdapterError> {
        let wanted = self.limit as usize;
        let mut tasks: Vec<normalise::Task> = Vec::new();
        let (mut page, mut number) = (first, 1);
        let exhausted = loop {
            let before = tasks.len();
            for task in normalise::tasks(page.body())?.tasks {
                if !tasks.iter().any(|seen| seen.id == task.id) {
                    tasks.push(task);
                }
            }
            if tasks.len() == before || !page.headers().may_continue(tasks.len()) {
                break true;
            }
            if normalise::grouped(&tasks).len() > wanted || number == MAX_PAGES {
                break false;
            }
            number += 1;
            page = match self.ask(&self.tasks(number)).await? {
                Answer::Page(page) => page,
                Answer::Forbidden(_) | Answer::NotThere => return Err(changed()),
            };
        };
        let mut runs = normalise::grouped(&tasks);
        let total_count = exhausted.then_some(runs.len() as u64);
        if !exhausted && runs.len() > 1 {
            runs.pop();
        }
        let surplus = runs.len().saturating_sub(wanted) as u64;
        runs.truncate(wanted);
        let omitted = exhausted.then_some(surplus).filter(|left| *left > 0);
        let extent = extent(!exhausted || surplus > 0, omitted);
        Ok(CiRunList { total_count, runs, source: "tasks".to_owned(), extent })
    }

    /// Neither rung is there: an old server, or no such repository.
    async fn why_not_there(&self) -> AdapterError {
        match self.has_actions().await {
            Ok(Some(false)) => self.switched_off(),
            Ok(_) => AdapterError::NotFound("this server has no run API (needs Gitea 1.23+)".to_owned()),
            Err(error) => error,
        }
    }

    /// A rung is there and closed: a scope, or Actions that are switched off.
    async fn why_forbidden(&self, scopes: Option<String>) -> AdapterError {
        if scopes.is_some() {
            return forbidden(scopes, "");
        }
        match self.has_actions().await {
            Ok(Some(false)) => self.switched_off(),
            Ok(_) => forbidden(None, &format!("read access to Actions of {}", self.repo.full_name())),
            Err(error) => error,
        }
    }

    async fn has_actions(&self) -> Result<Option<bool>, AdapterError> {
        match self.ask(&Endpoint::Repo(self.repo.clone())).await? {
            Answer::Page(page) => normalise::has_actions(page.body()),
            Answer::Forbidden(scopes) => Err(forbidden(scopes, "read:repository")),
            Answer::NotThere => {
                let name = self.repo.full_name();
                Err(AdapterError::NotFound(format!("{name} is missing or not visible to the token's user")))
            }
        }
    }

    fn switched_off(&self) -> AdapterError {
        AdapterError::NotFound(format!("Actions are switched off in {}", self.repo.full_name()))
    }

    async fn ask(&self, endpoint: &Endpoint) -> Result<Answer, AdapterError> {
        self.client.ask(endpoint, Some(self.token), self.deadline).await
    }

    fn runs(&self, page: u32) -> Endpoint {
        Endpoint::Runs(self.repo.clone(), PageOf { page, limit: self.limit })
    }

    fn tasks(&self, page: u32) -> Endpoint {
        Endpoint::Tasks(self.repo.clone(), PageOf { page, limit: TASKS_PER_PAGE })
    }
}

fn changed() -> AdapterError {
    AdapterError::Upstream("the repository changed while its runs were read; try again".to_owned())
}

fn extent(truncated: bool, omitted: Option<u64>) -> Extent {
    let hint = truncated.then(|| "the newest runs are listed; raise limit (at most 50) for more".to_owned());
    Extent { truncated, omitted: omitted.filter(|_| truncated), hint, ..Extent::default() }
}
