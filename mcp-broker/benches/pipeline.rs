//! The pipeline's own cost: every port in memory, a live tool that does nothing, one core.
//!
//! Prints the time per call; the standing figure is 60 µs at the most.
#![allow(missing_docs, reason = "criterion's macros define undocumented functions")]

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use criterion::{Criterion, criterion_group, criterion_main};
use mcp_broker::memory::{Limits, MemoryAudit, MemoryDirectory, MemoryLimiter, MemoryStreams};
use mcp_broker::{Broker, CallRequest, Ports};
use mcp_core::adapter::{Adapter, Route, Target};
use mcp_core::error::AdapterError;
use mcp_core::id::{InstanceId, PrincipalId, TargetId, TenantId};
use mcp_core::policy::{PermittedCall, Screen};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput};
use secrets::MemorySecrets;
use serde_json::{Map, Value, json};
use uuid::Uuid;

struct Noop;

#[async_trait]
impl Adapter for Noop {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Ssh
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        let answer = json!({"stdout": "up", "stderr": "", "exitCode": 0, "truncated": false});
        Ok(ToolOutput::new(answer.as_object().cloned().unwrap_or_default()))
    }
}

struct Open;

impl Screen for Open {
    fn screen(&self, _: &Map<String, Value>) -> Result<(), String> {
        Ok(())
    }
}

fn broker() -> (Broker, Arc<Principal>) {
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    let directory = Arc::new(MemoryDirectory::default());
    let kind = AdapterKind::Ssh;
    let target =
        Target { tenant, id: TargetId::from_uuid(Uuid::from_u128(2)), name: "host".to_owned(), kind };
    directory.add(Route { target, adapter: Arc::new(Noop), credential: None, config_version: 1 });
    let plenty = NonZeroU32::MAX;
    let ports = Ports {
        audit: Arc::new(MemoryAudit::forgetful()),
        limiter: Arc::new(MemoryLimiter::new(Limits { user_per_min: plenty, tenant_per_min: plenty })),
        directory,
        secrets: Arc::new(MemorySecrets::default()),
        streams: Arc::new(MemoryStreams::start()),
    };
    let broker = Broker::builder(ports, InstanceId::from_uuid(Uuid::from_u128(3)))
        .screen(ToolName::SshRunWhitelistedCommand, Arc::new(Open))
        .build()
        .expect("every screen is there");
    let principal = Principal {
        tenant,
        id: PrincipalId::from_uuid(Uuid::from_u128(4)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    };
    (broker, Arc::new(principal))
}

fn pipeline(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (broker, principal) = runtime.block_on(async { broker() });
    let args = json!({"command": "uptime"}).as_object().cloned().unwrap_or_default();
    criterion.bench_function("pipeline/no-op live tool", |bencher| {
        bencher.iter(|| {
            let request = CallRequest {
                principal: Arc::clone(&principal),
                tool: "ssh.run_whitelisted_command".to_owned(),
                target: None,
                args: args.clone(),
            };
            let finished = runtime.block_on(broker.call(request)).expect("started");
            assert!(finished.result.is_ok());
        });
    });
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
