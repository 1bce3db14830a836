//! The servers that are measured: a bare echo, our own, and a small MCP server for a proxy to stand in front of.

use std::ffi::OsString;
use std::io::Read as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use adapter_ssh::Hub;
use adapter_ssh::whitelist::CommandScreen;
use async_trait::async_trait;
use audit::{AuditConfig, PostgresAudit};
use axum::{Json, Router};
use http_api::{
    Adapters, AllowedHosts, AllowedOrigins, Api, ApiSettings, CursorKey, Readiness, ReadyCheck, Server,
    ServerLimits, public_router,
};
use identity::pg::{NewKey, key_create};
use identity::{ApiKey, Authenticator, Role};
use mcp_broker::memory::{Limits, MemoryAudit, MemoryDirectory, MemoryLimiter, MemoryStreams};
use mcp_broker::transport::http::McpEndpoint;
use mcp_broker::transport::{BrokerTools, ToolServer};
use mcp_broker::{Broker, OncePerMinute, Ports};
use mcp_core::adapter::{Adapter, Route, Target};
use mcp_core::adapter_config::{AdapterConfig, AdapterFactory, ConfigRefused};
use mcp_core::agent::{AgentRecord, AgentStore, AgentStoreError, Registration};
use mcp_core::audit::AuditSink;
use mcp_core::check::{CheckStep, StepName, UpstreamAdapter};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::id::{AgentId, InstanceId, TargetId, TenantId};
use mcp_core::jsonrpc::RpcError;
use mcp_core::mcp::{CallToolParams, CallToolResult, Tool};
use mcp_core::policy::PermittedCall;
use mcp_core::principal::{Grants, Principal};
use mcp_core::relay::HostFacts;
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput, budget, catalogue};
use secrets::MemorySecrets;
use serde_json::{Value, json};
use tenancy::embedded::{EmbeddedConfig, EmbeddedServer, PgBinaries, SuperviseCommand};
use tenancy::stores::tenant::tenant_create;
use tenancy::{PoolSize, Tenancy, migrate};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;
use uuid::Uuid;

/// Serves until standard input ends, and says where on standard output.
pub(crate) fn run(kind: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut database = None;
        let (router, key) = match kind {
            "echo" => (echo(), String::new()),
            "upstream" => (upstream(), String::new()),
            _ => {
                let server = start_database().await;
                let (router, key) = ours(&server, kind == "durable").await;
                database = Some(server);
                (router, key)
            }
        };
        println!("{address} {key}");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(
            Server::new(listener, router, ServerLimits::default()).run(stop.clone(), Duration::from_secs(1)),
        );
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
        stop.cancel();
        let _ = serving.await;
        if let Some(database) = database {
            database.stop().await;
        }
    });
}

fn echo() -> Router {
    Router::new().route("/mcp", axum::routing::post(|Json(body): Json<Value>| async move { Json(body) }))
}

/// An MCP server that has its answer ready.
fn upstream() -> Router {
    let endpoint = Arc::new(McpEndpoint::new(Arc::new(Ready)));
    let caller = Arc::new(Principal {
        tenant: TenantId::from_uuid(Uuid::from_u128(1)),
        id: mcp_core::id::PrincipalId::from_uuid(Uuid::from_u128(2)),
        key: None,
        role: "operator",
        grants: Grants::none(),
    });
    let answer = move |request: axum::extract::Request| {
        let (endpoint, caller) = (Arc::clone(&endpoint), Arc::clone(&caller));
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
            endpoint.answer(http::Request::from_parts(parts, body), caller).await.map(axum::body::Body::new)
        }
    };
    Router::new().route("/mcp", axum::routing::post(answer))
}

struct Ready;

#[async_trait]
impl ToolServer for Ready {
    async fn instructions(&self, _: &Principal) -> Result<String, RpcError> {
        Ok(String::new())
    }

    async fn list(&self, _: &Principal) -> Result<Vec<Tool>, RpcError> {
        Ok(catalogue().iter().map(Tool::on_the_wire).collect())
    }

    async fn call(&self, _: Arc<Principal>, _: CallToolParams) -> Result<CallToolResult, RpcError> {
        Ok(CallToolResult::success(repos()))
    }

    async fn mismatch(&self, _: &Principal, _: &str) {}
}

/// Ten repositories.
fn repos() -> ToolOutput {
    let repo = |number: u64| {
        json!({
            "id": number, "name": format!("service-{number}"), "full_name": format!("acme/service-{number}"),
            "owner": "acme", "private": true, "description": "One of the services that the shop is made of",
            "html_url": format!("https://github.com/acme/service-{number}"), "default_branch": "main",
            "updated_at": "2026-01-01T00:00:00Z",
        })
    };
    let list = json!({"repos": (1..=10).map(repo).collect::<Vec<_>>(), "truncated": false});
    ToolOutput::new(list.as_object().cloned().unwrap_or_default())
}

struct Forge;

#[async_trait]
impl Adapter for Forge {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Github
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        Ok(repos())
    }
}

async fn start_database() -> EmbeddedServer {
    let data_dir = std::env::temp_dir().join(format!("coreci-bench-{}", Ulid::generate()));
    let path = std::env::var_os("PATH");
    let binaries = PgBinaries::find(&data_dir, None, path.as_deref()).unwrap();
    let supervise =
        SuperviseCommand { program: "/proc/self/exe".into(), args: vec![OsString::from("__supervised")] };
    let server = EmbeddedServer::start(EmbeddedConfig { data_dir, binaries, supervise }).await.unwrap();
    migrate::migrate(server.connections().migrator.as_ref().unwrap()).await.unwrap();
    server
}

/// The program's own router over a real database, with the audit log in memory or durable.
async fn ours(database: &EmbeddedServer, durable: bool) -> (Router, String) {
    let tenancy = Tenancy::connect(&database.connections().app, PoolSize::default());
    let tenant = tenant_create(&tenancy, "acme", "Acme", "bench").await.unwrap().tenant_id;
    let key = ApiKey::generate().unwrap();
    let tx = tenancy.tx(tenant).await.unwrap();
    let new = NewKey { name: "bench", role: Role::Operator, expires_at: None, tools: None, targets: None };
    key_create(&tx, &key, &new, None).await.unwrap();
    tx.commit().await.unwrap();

    let instance = InstanceId::from_uuid(Uuid::from_u128(3));
    let audit: Arc<dyn AuditSink> = if durable {
        let config = AuditConfig::new([7; 32], instance);
        Arc::new(PostgresAudit::start(config, database.connections().audit.clone()))
    } else {
        Arc::new(MemoryAudit::forgetful())
    };
    let directory = Arc::new(MemoryDirectory::default());
    let id = TargetId::from_uuid(Uuid::from_u128(2));
    let target = Target { tenant, id, name: "forge".to_owned(), kind: AdapterKind::Github };
    directory.add(Route { target, adapter: Arc::new(Forge), credential: None, config_version: 1 });
    let secrets = Arc::new(MemorySecrets::default());
    let plenty = NonZeroU32::MAX;
    let ports = Ports {
        audit: Arc::clone(&audit),
        limiter: Arc::new(MemoryLimiter::new(Limits { user_per_min: plenty, tenant_per_min: plenty })),
        directory,
        secrets: secrets.clone(),
        streams: Arc::new(MemoryStreams::start()),
    };
    let broker = Broker::builder(ports, instance)
        .in_flight_limit(1000)
        .screen(ToolName::SshRunWhitelistedCommand, Arc::new(CommandScreen))
        .build()
        .unwrap();
    let broker = Arc::new(broker);
    let tools = BrokerTools::new(Arc::clone(&broker), budget::MCP_BYTES);
    let api = Api {
        broker,
        mcp: McpEndpoint::new(Arc::new(tools)),
        authenticator: Authenticator::new(tenancy.clone()),
        adapters: Adapters::new(tenancy.clone(), secrets, Arc::new(NoFactory), Arc::clone(&audit)),
        tenancy,
        hub: Hub::new(Arc::new(NoAgents), Arc::clone(&audit), "127.0.0.1".to_owned()),
        audit,
        enroll_failures: OncePerMinute::default(),
        readiness: Arc::new(Always),
        settings: ApiSettings {
            public_url: "http://127.0.0.1".to_owned(),
            allowed_hosts: AllowedHosts::new(["127.0.0.1".to_owned()]),
            allowed_origins: AllowedOrigins::default(),
            token_issuer: None,
            trusted_proxies: Vec::new(),
            cursor_key: CursorKey::new(&[9; 32]),
        },
    };
    (public_router(Arc::new(api)), key.reveal().to_owned())
}

struct Always;

#[async_trait]
impl Readiness for Always {
    async fn checks(&self) -> Vec<ReadyCheck> {
        Vec::new()
    }
}

/// Nobody configures anything here.
struct NoFactory;

impl AdapterFactory for NoFactory {
    fn build(&self, _: &AdapterConfig) -> Result<Arc<dyn UpstreamAdapter>, ConfigRefused> {
        Err(refused())
    }

    fn check_credential(&self, _: AdapterKind, _: &SecretValue) -> Result<(), ConfigRefused> {
        Err(refused())
    }

    fn destination(&self, _: &AdapterConfig) -> Option<String> {
        None
    }
}

fn refused() -> ConfigRefused {
    ConfigRefused { code: ErrorCode::ConfigRefused, step: CheckStep::fail(StepName::Egress, "not here", "") }
}

struct NoAgents;

#[async_trait]
impl AgentStore for NoAgents {
    async fn agent_find(&self, _: AgentId) -> Result<Option<AgentRecord>, AgentStoreError> {
        Ok(None)
    }

    async fn agent_registered(
        &self,
        _: TenantId,
        _: AgentId,
        _: &HostFacts,
    ) -> Result<Option<Registration>, AgentStoreError> {
        Ok(None)
    }

    async fn agent_seen(&self, _: TenantId, _: AgentId, _: u64) -> Result<bool, AgentStoreError> {
        Ok(false)
    }
}
