//! `github.get_workflow_run`.

use mcp_core::error::AdapterError;
use mcp_core::tool::github::GetWorkflowRunArgs;
use serde_json::{Map, Value};

use crate::client::Page;
use crate::endpoint::Endpoint;
use crate::normalise;

pub(crate) fn endpoint(args: &Map<String, Value>) -> Result<Endpoint, AdapterError> {
    let args: GetWorkflowRunArgs = super::arguments(args)?;
    Ok(Endpoint::Run(super::repository(&args.owner, &args.repo)?, args.run_id))
}

/// The run alone: its workflow is never looked up, since that of an organisation's rule set answers 404
/// (cli/cli#9228).
pub(crate) fn result(page: &Page<'_>) -> Result<Map<String, Value>, AdapterError> {
    super::object(normalise::run(page.body)?)
}
