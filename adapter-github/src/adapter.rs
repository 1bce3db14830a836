//! The adapter: which tool asks what.

use async_trait::async_trait;
use egress::UpstreamClient;
use mcp_core::adapter::Adapter;
use mcp_core::check::{CheckReport, UpstreamAdapter};
use mcp_core::error::AdapterError;
use mcp_core::policy::PermittedCall;
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput};
use tokio::time::Instant;

use crate::check;
use crate::client::GithubClient;
use crate::config::GithubOptions;
use crate::error::Failure;
use crate::token::GithubToken;
use crate::tools::{get_recent_ci_runs, get_workflow_run, list_repos};

/// Reads one GitHub or GitHub Enterprise Server on behalf of one tenant.
///
/// Its memory (entity tags, a rate limit that is known) belongs to one configuration and one user: build one adapter
/// for each configuration.
pub struct GithubAdapter {
    client: GithubClient,
    options: GithubOptions,
}

impl GithubAdapter {
    /// An adapter over a client whose base is [`DEFAULT_BASE_URL`](crate::DEFAULT_BASE_URL) or `https://HOST/api/v3`.
    #[must_use]
    pub fn new(client: UpstreamClient, options: GithubOptions) -> Self {
        Self { client: GithubClient::new(client), options }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.budget
    }
}

#[async_trait]
impl Adapter for GithubAdapter {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Github
    }

    async fn execute(
        &self,
        call: PermittedCall,
        credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError> {
        let credential = credential.ok_or(AdapterError::UpstreamAuth)?;
        #[expect(clippy::disallowed_methods, reason = "its form is checked before it enters a request")]
        let token = GithubToken::parse(credential.reveal()).map_err(|_| AdapterError::UpstreamAuth)?;
        let (endpoint, result): (_, crate::client::Reader) = match call.tool() {
            ToolName::GithubListRepos => (list_repos::endpoint(call.args())?, list_repos::result),
            ToolName::GithubGetRecentCiRuns => {
                (get_recent_ci_runs::endpoint(call.args())?, get_recent_ci_runs::result)
            }
            ToolName::GithubGetWorkflowRun => {
                (get_workflow_run::endpoint(call.args())?, get_workflow_run::result)
            }
            other => {
                return Err(AdapterError::Upstream(format!("the GitHub adapter does not serve {other}")));
            }
        };
        let read = self.client.read(&endpoint, &token, self.deadline(), result);
        read.await.map(ToolOutput::new).map_err(Failure::for_call)
    }
}

#[async_trait]
impl UpstreamAdapter for GithubAdapter {
    async fn check(&self, credential: &SecretValue) -> CheckReport {
        check::check(&self.client, credential, self.deadline()).await
    }
}
