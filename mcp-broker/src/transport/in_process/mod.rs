//! MCP between the broker and its adapters, which are servers in the same process (SPEC §7).
//!
//! Both sides exchange real JSON-RPC envelopes, with a handshake at registration. What may not be serialised travels
//! beside the envelope: the permit, which is evidence and not data, and the credential that is lent for the call.

mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use mcp_core::adapter::{Adapter, Target};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::jsonrpc::{Id, Outcome, Request, Response, Version};
use mcp_core::mcp::MCP_PROTOCOL_VERSION;
use mcp_core::policy::PermittedCall;
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolOutput};
use serde_json::{Map, Value, json};

use self::server::{AdapterServer, FACTS, Lent};

/// The handshake by which an adapter was registered, as it was spoken: conformance evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifecycle {
    /// The broker's `initialize`.
    pub offered: Request,
    /// What the adapter answered.
    pub answered: Option<Response>,
    /// The broker's `notifications/initialized`; absent when the answer was not acceptable.
    pub confirmed: Option<Request>,
}

/// A registered adapter: it is spoken to in MCP only. An adapter itself, so it stands wherever one is wanted.
pub struct Link {
    server: AdapterServer,
    lifecycle: Lifecycle,
    last_id: AtomicI64,
}

impl Link {
    /// Registers an adapter by the handshake. An adapter that answers wrongly is there and answers every call with
    /// [`AdapterError::Malformed`]; the log says so once.
    #[must_use]
    pub fn register(adapter: Arc<dyn Adapter>) -> Self {
        let server = AdapterServer::new(adapter);
        let params = json!({
            "protocolVersion": MCP_PROTOCOL_VERSION,
            "capabilities": {"tools": {"listChanged": false}},
            "clientInfo": {"name": "coreci-broker", "version": env!("CARGO_PKG_VERSION")},
        });
        let offered = message(Some(Id::Number(0)), "initialize", Some(params));
        let answered = server.answer_control(&offered);
        let confirmed = answered.as_ref().is_some_and(speaks_our_revision).then(|| {
            let confirmed = message(None, "notifications/initialized", None);
            server.answer_control(&confirmed);
            confirmed
        });
        if confirmed.is_none() {
            tracing::error!(adapter.kind = %server.kind(), "an adapter failed its handshake and is not used");
        }
        Self { server, lifecycle: Lifecycle { offered, answered, confirmed }, last_id: AtomicI64::new(0) }
    }

    /// The handshake by which it was registered.
    #[must_use]
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }
}

#[async_trait]
impl Adapter for Link {
    fn kind(&self) -> AdapterKind {
        self.server.kind()
    }

    fn ready(&self, target: &Target) -> Result<(), CallError> {
        self.server.ready(target)
    }

    async fn execute(
        &self,
        call: PermittedCall,
        credential: Option<SecretValue>,
    ) -> Result<ToolOutput, AdapterError> {
        let id = Id::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let params = json!({"name": call.tool().as_str(), "arguments": call.args()});
        let request = message(Some(id.clone()), "tools/call", Some(params));
        let response = self.server.call(&request, Lent { call, credential }).await;
        match response.outcome {
            Outcome::Result(Value::Object(result)) if response.id == Some(id) => read(result),
            Outcome::Result(_) => Err(AdapterError::Malformed),
            Outcome::Error(error) => {
                tracing::error!(adapter.kind = %self.kind(), code = error.code, "an adapter refused an envelope");
                Err(AdapterError::Malformed)
            }
        }
    }
}

fn message(id: Option<Id>, method: &str, params: Option<Value>) -> Request {
    Request { jsonrpc: Version, id, method: method.to_owned(), params }
}

fn speaks_our_revision(response: &Response) -> bool {
    match &response.outcome {
        Outcome::Result(result) => {
            result["protocolVersion"] == MCP_PROTOCOL_VERSION && result["capabilities"]["tools"].is_object()
        }
        Outcome::Error(_) => false,
    }
}

/// Reads a result back: the data and its audit facts, or the adapter's own error.
fn read(mut result: Map<String, Value>) -> Result<ToolOutput, AdapterError> {
    let Some(Value::Object(structured)) = result.remove("structuredContent") else {
        return Err(AdapterError::Malformed);
    };
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(AdapterError::from_data(&structured).unwrap_or(AdapterError::Malformed));
    }
    let facts = result.get_mut("_meta").and_then(|meta| meta.get_mut(FACTS)).map(Value::take);
    let facts = match facts {
        Some(Value::Object(facts)) => facts,
        _ => Map::new(),
    };
    Ok(ToolOutput::with_facts(structured, facts))
}

#[cfg(test)]
mod tests;
