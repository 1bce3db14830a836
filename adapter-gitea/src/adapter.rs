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
use crate::client::GiteaClient;
use crate::config::GiteaOptions;
use crate::token::GiteaToken;
use crate::tools::{get_recent_ci_runs, list_repos};
use upstream::redact::redact;

/// Reads one Gitea or Forgejo on behalf of one tenant.
pub struct GiteaAdapter {
    client: GiteaClient,
    options: GiteaOptions,
}

impl GiteaAdapter {
    /// An adapter over a client whose base is the address of the forge's website, such as `https://git.example` or
    /// `https://example/git`.
    #[must_use]
    pub fn new(client: UpstreamClient, options: GiteaOptions) -> Self {
        Self { client: GiteaClient::new(client), options }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.budget
    }
}

#[async_trait]
impl Adapter for GiteaAdapter {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Gitea
    }

    async fn execute(
        &self,
        call: PermittedCall,
        credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError> {
        let credential = credential.ok_or(AdapterError::UpstreamAuth)?;
        #[expect(clippy::disallowed_methods, reason = "its form is checked before it enters a request")]
        let token = GiteaToken::parse(credential.reveal()).map_err(|_| AdapterError::UpstreamAuth)?;
        let (client, args, deadline) = (&self.client, call.args(), self.deadline());
        let mut result = match call.tool() {
            ToolName::GiteaListRepos => list_repos::run(client, &token, args, deadline).await?,
            ToolName::GiteaGetRecentCiRuns => get_recent_ci_runs::run(client, &token, args, deadline).await?,
            other => return Err(AdapterError::Upstream(format!("the Gitea adapter does not serve {other}"))),
        };
        redact(&mut result, token.secret());
        Ok(ToolOutput::new(result))
    }
}

#[async_trait]
impl UpstreamAdapter for GiteaAdapter {
    async fn check(&self, credential: &SecretValue) -> CheckReport {
        check::check(&self.client, credential, self.deadline()).await
    }
}
