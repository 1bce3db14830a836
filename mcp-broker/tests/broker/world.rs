//! A broker with one principal, one target per kind wanted, and an adapter that does as it is told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mcp_broker::memory::{Limits, MemoryAudit, MemoryDirectory, MemoryLimiter, MemoryStreams};
use mcp_broker::{Broker, CallRequest, Ports};
use mcp_core::adapter::{Adapter, Route, Target};
use mcp_core::audit::{AuditEvent, EventType};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::id::{InstanceId, PrincipalId, TargetId, TenantId};
use mcp_core::policy::{PermittedCall, Screen};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput};
use secrets::MemorySecrets;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(crate) const TENANT: TenantId = TenantId::from_uuid(Uuid::from_u128(1));

/// What the adapter does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    Answer,
    Fail(AdapterError),
    Hang,
    Panic,
}

/// Counts what reaches it. A test that expects a refusal asserts that nothing did.
pub(crate) struct FakeAdapter {
    kind: AdapterKind,
    behaviour: Mutex<Behaviour>,
    pub(crate) reached: AtomicUsize,
    pub(crate) aborted: Arc<AtomicUsize>,
    pub(crate) intents_seen: Mutex<Vec<u64>>,
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
        self.kind
    }

    async fn execute(&self, call: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        self.reached.fetch_add(1, Ordering::SeqCst);
        self.intents_seen.lock().expect("lock").push(call.intent().seq);
        let behaviour = self.behaviour.lock().expect("lock").clone();
        match behaviour {
            Behaviour::Answer => {
                let answer = json!({"repos": [], "truncated": false});
                Ok(ToolOutput::new(answer.as_object().expect("an object").clone()))
            }
            Behaviour::Fail(error) => Err(error),
            Behaviour::Hang => {
                let _guard = CountDrop(Arc::clone(&self.aborted));
                std::future::pending().await
            }
            Behaviour::Panic => panic!("the adapter has a bug"),
        }
    }
}

struct OnlyUptime;

impl Screen for OnlyUptime {
    fn screen(&self, args: &Map<String, Value>) -> Result<(), String> {
        match args.get("command").and_then(Value::as_str) {
            Some("uptime") | None => Ok(()),
            Some(_) => Err("only uptime is allowed".to_owned()),
        }
    }
}

pub(crate) struct World {
    pub(crate) broker: Arc<Broker>,
    pub(crate) audit: Arc<MemoryAudit>,
    pub(crate) directory: Arc<MemoryDirectory>,
    pub(crate) adapter: Arc<FakeAdapter>,
    pub(crate) grants: Grants,
}

impl World {
    /// One GitHub target called `forge`.
    pub(crate) fn new() -> Self {
        Self::with_in_flight_limit(32)
    }

    pub(crate) fn with_in_flight_limit(limit: usize) -> Self {
        let audit = Arc::new(MemoryAudit::default());
        let directory = Arc::new(MemoryDirectory::default());
        let adapter = Arc::new(FakeAdapter {
            kind: AdapterKind::Github,
            behaviour: Mutex::new(Behaviour::Answer),
            reached: AtomicUsize::new(0),
            aborted: Arc::default(),
            intents_seen: Mutex::default(),
        });
        let ports = Ports {
            audit: audit.clone(),
            limiter: Arc::new(MemoryLimiter::new(Limits::default())),
            directory: directory.clone(),
            secrets: Arc::new(MemorySecrets::default()),
            streams: Arc::new(MemoryStreams::start()),
        };
        let broker = Broker::builder(ports, InstanceId::from_uuid(Uuid::from_u128(3)))
            .in_flight_limit(limit)
            .screen(ToolName::SshRunWhitelistedCommand, Arc::new(OnlyUptime))
            .build()
            .expect("a broker");
        let grants = Grants::new([Action::ToolsInvoke]);
        let world = Self { broker: Arc::new(broker), audit, directory, adapter, grants };
        world.add_target(2, "forge");
        world
    }

    pub(crate) fn add_target(&self, id: u128, name: &str) -> TargetId {
        let id = TargetId::from_uuid(Uuid::from_u128(id));
        let target = Target { tenant: TENANT, id, name: name.to_owned(), kind: AdapterKind::Github };
        let adapter: Arc<dyn Adapter> = self.adapter.clone();
        self.directory.add(Route { target, adapter, credential: None, config_version: 1 });
        id
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.adapter.behaviour.lock().expect("lock") = behaviour;
    }

    pub(crate) fn principal(&self) -> Arc<Principal> {
        Arc::new(Principal {
            tenant: TENANT,
            id: PrincipalId::from_uuid(Uuid::from_u128(4)),
            key: None,
            role: "operator",
            grants: self.grants.clone(),
        })
    }

    pub(crate) fn request(&self, tool: &str, target: Option<&str>, args: Value) -> CallRequest {
        CallRequest {
            principal: self.principal(),
            tool: tool.to_owned(),
            target: target.map(str::to_owned),
            args: args.as_object().expect("an object").clone(),
        }
    }

    /// The code of what came of a call, `ok` when it succeeded.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> &'static str {
        self.call_on(tool, None, args).await
    }

    pub(crate) async fn call_on(&self, tool: &str, target: Option<&str>, args: Value) -> &'static str {
        code(self.broker.call(self.request(tool, target, args)).await.and_then(|finished| finished.result))
    }

    /// What was audited: type, phase, and result or code.
    pub(crate) fn audited(&self) -> Vec<(EventType, String, String)> {
        self.audit.events().into_iter().map(summary).collect()
    }

    pub(crate) fn reached(&self) -> usize {
        self.adapter.reached.load(Ordering::SeqCst)
    }

    pub(crate) fn aborted(&self) -> usize {
        self.adapter.aborted.load(Ordering::SeqCst)
    }
}

pub(crate) fn code<T>(result: Result<T, CallError>) -> &'static str {
    result.map_or_else(|error| error.code().as_str(), |_| "ok")
}

fn summary(event: AuditEvent) -> (EventType, String, String) {
    let body = event.body.into_stored(|_| "hashed".to_owned());
    let word = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let last = if body.contains_key("result") { word("result") } else { word("code") };
    (event.event_type, word("phase"), last)
}

/// Yields until `done`, in (paused) time bounded by ten seconds.
pub(crate) async fn eventually(done: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while !done() {
        assert!(tokio::time::Instant::now() < deadline, "it never happened");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
