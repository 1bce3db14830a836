//! `github.get_recent_ci_runs`.

use mcp_core::error::AdapterError;
use mcp_core::tool::Extent;
use mcp_core::tool::github::{CiRunList, GetRecentCiRunsArgs};
use serde_json::{Map, Value};

use crate::client::Page;
use crate::endpoint::{Endpoint, RunFilter};
use crate::normalise;

const DEFAULT_PER_PAGE: u32 = 30;
const MAX_PER_PAGE: u32 = 100;

pub(crate) fn endpoint(args: &Map<String, Value>) -> Result<Endpoint, AdapterError> {
    let args: GetRecentCiRunsArgs = super::arguments(args)?;
    let per_page = args.per_page.unwrap_or(DEFAULT_PER_PAGE).clamp(1, MAX_PER_PAGE);
    let filter = RunFilter { per_page, status: args.status, branch: args.branch };
    Ok(Endpoint::Runs(super::repository(&args.owner, &args.repo)?, filter))
}

pub(crate) fn result(page: &Page<'_>) -> Result<Map<String, Value>, AdapterError> {
    let normalise::RunPage { total_count, mut runs } = normalise::runs(page.body)?;
    runs.truncate(MAX_PER_PAGE as usize);
    let omitted = total_count.saturating_sub(runs.len() as u64);
    let truncated = omitted > 0 || page.has_next;
    let hint = truncated.then(|| {
        "the newest runs are listed; raise per_page (at most 100) or filter by status or branch".to_owned()
    });
    let extent = Extent { truncated, omitted: (omitted > 0).then_some(omitted), hint, ..Extent::default() };
    super::object(CiRunList { total_count, runs, extent })
}
