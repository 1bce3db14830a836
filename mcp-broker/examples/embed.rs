//! Embeds the broker with an adapter of one's own, calls a tool, and prints the audit rows.

use std::sync::Arc;

use async_trait::async_trait;
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

struct Forge;

#[async_trait]
impl Adapter for Forge {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Gitea
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        let answer = json!({"repos": [], "truncated": false});
        Ok(ToolOutput::new(answer.as_object().cloned().unwrap_or_default()))
    }
}

struct NoCommands;

impl Screen for NoCommands {
    fn screen(&self, _: &Map<String, Value>) -> Result<(), String> {
        Err("no command is allowed here".to_owned())
    }
}

#[expect(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    let audit = Arc::new(MemoryAudit::default());
    let directory = Arc::new(MemoryDirectory::default());
    let kind = AdapterKind::Gitea;
    let target =
        Target { tenant, id: TargetId::from_uuid(Uuid::from_u128(2)), name: "forge".to_owned(), kind };
    directory.add(Route { target, adapter: Arc::new(Forge), credential: None, config_version: 1 });
    let ports = Ports {
        audit: audit.clone(),
        limiter: Arc::new(MemoryLimiter::new(Limits::default())),
        directory,
        secrets: Arc::new(MemorySecrets::default()),
        streams: Arc::new(MemoryStreams::start()),
    };
    let broker = Broker::builder(ports, InstanceId::from_uuid(Uuid::from_u128(3)))
        .screen(ToolName::SshRunWhitelistedCommand, Arc::new(NoCommands))
        .build()?;
    let principal = Arc::new(Principal {
        tenant,
        id: PrincipalId::from_uuid(Uuid::from_u128(4)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    });

    for tool in ["gitea.list_repos", "gitea.delete_repo"] {
        let request = CallRequest {
            principal: Arc::clone(&principal),
            tool: tool.to_owned(),
            target: None,
            args: Map::new(),
        };
        match broker.call(request).await {
            Ok(finished) => println!("{tool}: {:?}", finished.result.map(|output| output.structured)),
            Err(refused) => println!("{tool}: {}", refused.code().as_str()),
        }
    }
    for event in audit.events() {
        println!("audited {} {:?}", event.event_type, event.link);
    }
    Ok(())
}
