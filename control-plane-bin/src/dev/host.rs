//! A relay agent for this very machine, in this process but over a real WebSocket.

use std::path::Path;

use anyhow::Context as _;
use mcp_core::error::ErrorCode;
use mcp_core::id::{AgentId, TargetId};
use relay_agent::enroll::{EnrollRequest, enroll};
use relay_agent::executor::RunAs;
use relay_agent::identity::Identity;
use relay_agent::run::{AgentConfig, run};
use reqwest::Method;
use serde_json::json;
use tenancy::TenancyError;
use tenancy::stores::agent::agent_get;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::demo::Demo;
use crate::client::{Client, ClientError};
use crate::data_dir::DataDir;

/// The directory below the data directory that the agent keeps its identity in.
const STATE_DIR: &str = "agent";

/// The running agent.
pub(super) struct HostAgent {
    pub(super) target: TargetId,
    stop: CancellationToken,
    running: JoinHandle<()>,
}
