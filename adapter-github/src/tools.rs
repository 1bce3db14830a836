//! The tools, one file each. A tool turns arguments into an [`Endpoint`](crate::endpoint::Endpoint) and an answer into
//! the tool's result; asking is the client's matter.

pub(crate) mod get_recent_ci_runs;
pub(crate) mod get_workflow_run;
pub(crate) mod list_repos;

use mcp_core::error::AdapterError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::endpoint::RepoPath;

/// Reads arguments. The pipeline has held them to the schema before; this is the second wall.
fn arguments<T: DeserializeOwned>(args: &Map<String, Value>) -> Result<T, AdapterError> {
    let unfit = |_| AdapterError::Upstream("the arguments do not fit the tool".to_owned());
    T::deserialize(Value::Object(args.clone())).map_err(unfit)
}

fn repository(owner: &str, name: &str) -> Result<RepoPath, AdapterError> {
    let unfit = || AdapterError::NotFound("GitHub has no repository of such a name".to_owned());
    RepoPath::parse(owner, name).ok_or_else(unfit)
}

/// The result as an object; every result type is one.
fn object(result: impl Serialize) -> Result<Map<String, Value>, AdapterError> {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(AdapterError::Malformed),
    }
}
