//! A fake forge, and an adapter that is called as the pipeline calls it.

use std::sync::Arc;
use std::time::Duration;

use adapter_gitea::{GiteaAdapter, GiteaOptions};
use egress::testing::{FakeServer, loopback_policy};
use egress::{EgressUrl, SystemResolver, TlsTrust, UpstreamClient};
use mcp_core::adapter::{Adapter, Target};
use mcp_core::audit::Receipt;
use mcp_core::check::{CheckReport, UpstreamAdapter};
use mcp_core::error::AdapterError;
use mcp_core::id::{CorrelationId, PrincipalId, TargetId, TenantId};
use mcp_core::policy::{PermittedCall, ToolPolicy, authorize, decide};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::secret::SecretValue;
use mcp_core::tool::AdapterKind;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const TOKEN: &str = "c0ffeecanary0123456789abcdef0123456789ab";

pub(crate) struct World {
    pub(crate) server: FakeServer,
    adapter: GiteaAdapter,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(GiteaOptions::default(), "").await
    }

    pub(crate) async fn with_budget(budget: Duration) -> Self {
        Self::with(GiteaOptions { budget }, "").await
    }

    /// A forge below a path.
    pub(crate) async fn below(path: &str) -> Self {
        Self::with(GiteaOptions::default(), path).await
    }

    /// Over HTTPS, with a certificate judged in this way.
    pub(crate) async fn https(trust: impl FnOnce(&FakeServer) -> TlsTrust) -> Self {
        let server = FakeServer::https().await;
        let trust = trust(&server);
        Self::over(server, trust, GiteaOptions::default(), "")
    }

    async fn with(options: GiteaOptions, path: &str) -> Self {
        Self::over(FakeServer::http().await, TlsTrust::System, options, path)
    }

    fn over(server: FakeServer, trust: TlsTrust, options: GiteaOptions, path: &str) -> Self {
        let policy = loopback_policy();
        let base = EgressUrl::parse(&format!("{}{path}", server.url()), &policy).expect("a base URL");
        let client = UpstreamClient::new(base, trust, policy, Arc::new(SystemResolver));
        Self { server, adapter: GiteaAdapter::new(client.expect("a client"), options) }
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<Value, AdapterError> {
        let credential = Some(SecretValue::new(TOKEN.to_owned()));
        self.adapter.execute(permitted(tool, args), credential).await.map(|output| json!(output.structured))
    }

    pub(crate) async fn refused(&self, tool: &str, args: Value) -> AdapterError {
        self.call(tool, args).await.expect_err("refused")
    }

    pub(crate) async fn check(&self) -> CheckReport {
        self.adapter.check(&SecretValue::new(TOKEN.to_owned())).await
    }

    /// Paths and queries that the server saw.
    pub(crate) fn asked(&self) -> Vec<String> {
        let seen = self.server.requests();
        let text =
            |path: String, query: &str| if query.is_empty() { path } else { format!("{path}?{query}") };
        seen.into_iter().map(|request| text(request.path, &request.query)).collect()
    }
}

/// Whatever a test was about, the server saw reads only (C-F02).
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.server.requests().iter().all(|request| request.method == "GET"));
        }
    }
}

/// A call as the pipeline makes it: decided, routed and written down.
fn permitted(tool: &str, args: Value) -> PermittedCall {
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    let principal = Principal {
        tenant,
        id: PrincipalId::from_uuid(Uuid::from_u128(2)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    };
    let authorized = authorize(Arc::new(principal), Action::ToolsInvoke).expect("granted");
    let args = args.as_object().expect("an object").clone();
    let permit = decide(authorized, tool, args, &ToolPolicy::default(), None).expect("decided");
    let id = TargetId::from_uuid(Uuid::from_u128(3));
    let target = Target { tenant, id, name: "forge".to_owned(), kind: AdapterKind::Gitea };
    let receipt = Receipt { tenant, seq: 1, hash: [0; 32] };
    permit.bind(CorrelationId::from_uuid(Uuid::from_u128(4)), target, receipt).expect("bound")
}

/// Arguments that name a repository.
pub(crate) fn repo() -> Value {
    json!({"owner": "Octo", "repo": "Hello.World"})
}

pub(crate) const REPO: &str = "/api/v1/repos/Octo/Hello.World";
pub(crate) const RUNS: &str = "/api/v1/repos/Octo/Hello.World/actions/runs";
pub(crate) const TASKS: &str = "/api/v1/repos/Octo/Hello.World/actions/tasks";
pub(crate) const USER_REPOS: &str = "/api/v1/user/repos";

/// What Gitea answers when all is well; scripts/peers/check-fixtures holds these bodies to its own description.
pub(crate) fn version_body() -> Value {
    body(include_str!("../fixtures/gitea/version.json"))
}

pub(crate) fn repos_body() -> Value {
    body(include_str!("../fixtures/gitea/repos.json"))
}

pub(crate) fn search_body() -> Value {
    body(include_str!("../fixtures/gitea/search.json"))
}

pub(crate) fn repo_body() -> Value {
    body(include_str!("../fixtures/gitea/repo.json"))
}

pub(crate) fn runs_body() -> Value {
    body(include_str!("../fixtures/gitea/runs.json"))
}

pub(crate) fn tasks_body() -> Value {
    body(include_str!("../fixtures/gitea/tasks.json"))
}

fn body(text: &str) -> Value {
    serde_json::from_str(text).expect("a fixture")
}
