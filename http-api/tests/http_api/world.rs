//! One server in process: its own database, a GitHub target whose adapter does as it is told, keys of each role.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapter_ssh::Hub;
use adapter_ssh::whitelist::CommandScreen;
use async_trait::async_trait;
use audit::{AuditConfig, PostgresAudit};
use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_api::{
    Adapters, AllowedHosts, AllowedOrigins, Api, ApiSettings, CursorKey, Readiness, ReadyCheck, public_router,
};
use http_body_util::BodyExt;
use identity::oauth::TokenVerifier;
use identity::pg::{NewKey, key_create};
use identity::{ApiKey, Authenticator, Role};
use mcp_broker::memory::{Limits, MemoryDirectory, MemoryLimiter, MemoryStreams};
use mcp_broker::transport::http::McpEndpoint;
use mcp_broker::transport::{BrokerTools, ToolServer};
use mcp_broker::{Broker, OncePerMinute, Ports};
use mcp_core::adapter::{Adapter, Route, Target};
use mcp_core::adapter_config::{AdapterConfig, AdapterFactory, ConfigRefused};
use mcp_core::agent::{AgentRecord, AgentStore, AgentStoreError, Registration};
use mcp_core::check::{CheckReport, CheckStep, StepName, UpstreamAdapter};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::id::{AgentId, InstanceId, TargetId, TenantId};
use mcp_core::policy::PermittedCall;
use mcp_core::relay::HostFacts;
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput, budget};
use secrets::MemorySecrets;
use serde_json::{Value, json};
use tenancy::testing::TestDatabase;
use tower::ServiceExt;
use uuid::Uuid;

/// Whose access tokens are taken, where any are.
pub(crate) const ISSUER: &str = "https://id.example";

/// A live tool, so that no answer comes out of the cache.
pub(crate) const TOOL: &str = "github.get_recent_ci_runs";

/// What the adapter does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    Answer,
    /// More than a model is given to read.
    AnswerLong,
    Fail(AdapterError),
    Hang,
}

pub(crate) struct FakeAdapter {
    behaviour: Mutex<Behaviour>,
    pub(crate) reached: AtomicUsize,
    pub(crate) aborted: Arc<AtomicUsize>,
    pub(crate) checked: AtomicUsize,
    pub(crate) report: Mutex<CheckReport>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Adapter for FakeAdapter {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Github
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let behaviour = self.behaviour.lock().expect("lock").clone();
        match behaviour {
            Behaviour::Answer => {
                let answer = json!({"repos": [], "truncated": false});
                Ok(ToolOutput::new(answer.as_object().expect("an object").clone()))
            }
            Behaviour::AnswerLong => {
                let runs: Vec<_> = (0..2000).map(|number| json!({"id": number, "branch": "main"})).collect();
                let answer = json!({"runs": runs, "truncated": false});
                Ok(ToolOutput::new(answer.as_object().expect("an object").clone()))
            }
            Behaviour::Fail(error) => Err(error),
            Behaviour::Hang => {
                let _guard = CountDrop(Arc::clone(&self.aborted));
                std::future::pending().await
            }
        }
    }
}

/// Builds [`FakeAdapter`]s, whose check finds what the test says; takes any credential but "malformed".
pub(crate) struct FakeFactory {
    adapter: Arc<FakeAdapter>,
}

#[async_trait]
impl UpstreamAdapter for FakeAdapter {
    async fn check(&self, _: &SecretValue) -> CheckReport {
        self.checked.fetch_add(1, Ordering::SeqCst);
        self.report.lock().expect("lock").clone()
    }
}

impl AdapterFactory for FakeFactory {
    fn build(&self, config: &AdapterConfig) -> Result<Arc<dyn UpstreamAdapter>, ConfigRefused> {
        if config.base_url.as_deref().is_some_and(|url| url.contains("metadata")) {
            let step = CheckStep::fail(StepName::Egress, "this host is refused", "name another one");
            return Err(ConfigRefused { code: ErrorCode::EgressDenied, step });
        }
        Ok(self.adapter.clone())
    }

    fn check_credential(&self, _: AdapterKind, credential: &SecretValue) -> Result<(), ConfigRefused> {
        if format!("{credential:?}") == "[REDACTED]"
            && *credential != SecretValue::new("malformed".to_owned())
        {
            return Ok(());
        }
        let step = CheckStep::fail(StepName::Auth, "not a token of this kind", "paste the whole token");
        Err(ConfigRefused { code: ErrorCode::ConfigRefused, step })
    }

    fn destination(&self, config: &AdapterConfig) -> Option<String> {
        config.base_url.clone()
    }
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

struct AlwaysReady;

#[async_trait]
impl Readiness for AlwaysReady {
    async fn checks(&self) -> Vec<ReadyCheck> {
        vec![ReadyCheck { name: "database", ok: true }]
    }
}

pub(crate) struct World {
    pub(crate) database: TestDatabase,
    pub(crate) api: Arc<Api>,
    pub(crate) adapter: Arc<FakeAdapter>,
    pub(crate) directory: Arc<MemoryDirectory>,
    pub(crate) tenant: TenantId,
    router: Router,
}

/// Somebody with a key, or without.
#[derive(Clone)]
pub(crate) struct Client {
    router: Router,
    key: Option<String>,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::build(None, None).await
    }

    /// One whose `/mcp` takes access tokens of [`ISSUER`].
    pub(crate) async fn trusting(tokens: TokenVerifier) -> Self {
        Self::build(Some(tokens), None).await
    }

    /// One whose `/mcp` offers these tools in place of the broker's, to clients on this machine.
    pub(crate) async fn offering(tools: Arc<dyn ToolServer>) -> Self {
        Self::build(None, Some(tools)).await
    }

    async fn build(tokens: Option<TokenVerifier>, tools: Option<Arc<dyn ToolServer>>) -> Self {
        let database = TestDatabase::new().await;
        let tenant = database.create_tenant("acme").await;
        let tenancy = database.tenancy();
        let instance = InstanceId::from_uuid(Uuid::from_u128(3));
        let config = AuditConfig::new([7; 32], instance);
        let audit = Arc::new(PostgresAudit::start(config, database.connections().audit));
        let hub = Hub::new(Arc::new(NoAgents), audit.clone(), "coreci.example".to_owned());
        let adapter = Arc::new(FakeAdapter {
            behaviour: Mutex::new(Behaviour::Answer),
            reached: AtomicUsize::new(0),
            aborted: Arc::default(),
            checked: AtomicUsize::new(0),
            report: Mutex::new(good_report()),
        });
        let directory = Arc::new(MemoryDirectory::default());
        let secrets = Arc::new(MemorySecrets::default());
        let factory = Arc::new(FakeFactory { adapter: adapter.clone() });
        let adapters = Adapters::new(tenancy.clone(), secrets.clone(), factory, audit.clone());
        let ports = Ports {
            audit: audit.clone(),
            limiter: Arc::new(MemoryLimiter::new(Limits::default())),
            directory: directory.clone(),
            secrets: secrets.clone(),
            streams: Arc::new(MemoryStreams::start()),
        };
        let broker = Broker::builder(ports, instance)
            .screen(ToolName::SshRunWhitelistedCommand, Arc::new(CommandScreen))
            .build()
            .expect("a broker");
        let broker = Arc::new(broker);
        let (host, origin) = match tools {
            Some(_) => ("127.0.0.1", "http://127.0.0.1:*"),
            None => ("coreci.example", "https://coreci.example"),
        };
        let tools =
            tools.unwrap_or_else(|| Arc::new(BrokerTools::new(Arc::clone(&broker), budget::MCP_BYTES)));
        let token_issuer = tokens.as_ref().map(|_| ISSUER.to_owned());
        let mut authenticator = Authenticator::new(tenancy.clone());
        if let Some(tokens) = tokens {
            authenticator = authenticator.with_tokens(tokens);
        }
        let api = Arc::new(Api {
            broker,
            mcp: McpEndpoint::new(tools),
            authenticator,
            tenancy,
            adapters,
            hub,
            audit,
            enroll_failures: OncePerMinute::default(),
            readiness: Arc::new(AlwaysReady),
            settings: ApiSettings {
                public_url: "https://coreci.example".to_owned(),
                allowed_hosts: AllowedHosts::new([host.to_owned()]),
                allowed_origins: AllowedOrigins::parse([origin]).expect("an origin"),
                token_issuer,
                trusted_proxies: Vec::new(),
                cursor_key: CursorKey::new(&[9; 32]),
            },
        });
        let router = public_router(Arc::clone(&api));
        let world = Self { database, api, adapter, directory, tenant, router };
        world.add_target(world.tenant, 2, "forge");
        world
    }

    pub(crate) fn add_target(&self, tenant: TenantId, id: u128, name: &str) {
        let id = TargetId::from_uuid(Uuid::from_u128(id));
        let target = Target { tenant, id, name: name.to_owned(), kind: AdapterKind::Github };
        let adapter: Arc<dyn Adapter> = self.adapter.clone();
        self.directory.add(Route { target, adapter, credential: None, config_version: 1 });
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.adapter.behaviour.lock().expect("lock") = behaviour;
    }

    pub(crate) fn anonymous(&self) -> Client {
        Client { router: self.router.clone(), key: None }
    }

    /// Somebody with a fresh key of this role in the world's tenant.
    pub(crate) async fn client(&self, role: Role) -> Client {
        self.client_of(self.tenant, role).await
    }

    pub(crate) async fn client_of(&self, tenant: TenantId, role: Role) -> Client {
        self.with_key(&self.key_of(tenant, role).await)
    }

    /// A fresh key of this role.
    pub(crate) async fn key_of(&self, tenant: TenantId, role: Role) -> String {
        let key = ApiKey::generate().expect("random");
        let name = format!("{role}-{}", Uuid::new_v4());
        let new = NewKey { name: &name, role, expires_at: None, tools: None, targets: None };
        let tx = self.api.tenancy.tx(tenant).await.expect("a transaction");
        key_create(&tx, &key, &new, None).await.expect("created");
        tx.commit().await.expect("committed");
        key.reveal().to_owned()
    }

    pub(crate) fn with_key(&self, key: &str) -> Client {
        Client { router: self.router.clone(), key: Some(key.to_owned()) }
    }

    pub(crate) fn reached(&self) -> usize {
        self.adapter.reached.load(Ordering::SeqCst)
    }
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body.to_string()), &[]).await
    }

    /// Sends one MCP request of the pinned revision.
    pub(crate) async fn mcp(&self, method: &str, params: Value) -> Answer {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send("POST", "/mcp", Some(message.to_string()), &[("mcp-protocol-version", "2025-06-18")]).await
    }

    /// Calls a tool and waits. [`TOOL`] gets the arguments that it needs.
    pub(crate) async fn invoke(&self, tool: &str, mut args: Value) -> Answer {
        if tool == TOOL {
            args["owner"] = json!("o");
            args["repo"] = json!("r");
        }
        self.post("/api/mcp/invoke?wait=true", json!({"tool": tool, "args": args})).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "coreci.example");
        }
        if body.is_some() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.unwrap_or_default())).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Answer { status: parts.status, headers: parts.headers, text }
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {:?}", self.text))
    }

    /// Status and code, as in `404 target_not_found`; only the status when it went well.
    pub(crate) fn told(&self) -> String {
        match serde_json::from_str::<Value>(&self.text) {
            Ok(body) if body["error"].is_string() => {
                assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()));
                assert_eq!(body["requestId"], json!(self.header("x-request-id")));
                format!("{} {}", self.status.as_u16(), body["error"].as_str().expect("a code"))
            }
            _ => self.status.as_u16().to_string(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The body with its request id taken out: what two refusals must have in common to be one answer.
    pub(crate) fn without_request_id(&self) -> (StatusCode, Value) {
        let mut body = self.json();
        body["requestId"].take();
        (self.status, body)
    }
}

pub(crate) fn good_report() -> CheckReport {
    let steps = vec![CheckStep::ok(StepName::Auth, "the token is good")];
    CheckReport { steps, ..CheckReport::default() }
}

/// Waits until `done`, ten seconds at most.
pub(crate) async fn eventually<F: Future<Output = bool>>(done: impl Fn() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !done().await {
        assert!(tokio::time::Instant::now() < deadline, "it never happened");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
