//! The tools, one file each.

pub(crate) mod get_recent_ci_runs;
pub(crate) mod list_repos;

use mcp_core::error::AdapterError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads arguments. The pipeline has held them to the schema before; this is the second wall.
fn arguments<T: DeserializeOwned>(args: &Map<String, Value>) -> Result<T, AdapterError> {
    let unfit = |_| AdapterError::Upstream("the arguments do not fit the tool".to_owned());
    T::deserialize(Value::Object(args.clone())).map_err(unfit)
}

/// The result as an object; every result type is one.
fn object(result: impl Serialize) -> Result<Map<String, Value>, AdapterError> {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(AdapterError::Malformed),
    }
}
