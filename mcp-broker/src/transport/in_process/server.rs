//! The adapter's side: an MCP server of the pinned revision around one adapter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mcp_core::adapter::{Adapter, Target};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::jsonrpc::{Request, Response, RpcError, code};
use mcp_core::mcp::{CallToolParams, MCP_PROTOCOL_VERSION, Tool};
use mcp_core::policy::PermittedCall;
use mcp_core::secret::SecretValue;
use mcp_core::tool::{AdapterKind, ToolName, ToolOutput, catalogue};
use serde_json::{Map, Value, json};

/// Where the facts for the audit row stand in a result's `_meta`.
pub(super) const FACTS: &str = "coreci/facts";

const FRESH: u8 = 0;
const GREETED: u8 = 1;
const READY: u8 = 2;

/// What comes with a `tools/call` beside its envelope.
pub(super) struct Lent {
    pub(super) call: PermittedCall,
    pub(super) credential: Option<SecretValue>,
}

/// One adapter as an MCP server. It offers the registry's tools of its kind and nothing else.
pub(super) struct AdapterServer {
    adapter: Arc<dyn Adapter>,
    stage: AtomicU8,
}

impl AdapterServer {
    pub(super) fn new(adapter: Arc<dyn Adapter>) -> Self {
        Self { adapter, stage: AtomicU8::new(FRESH) }
    }

    pub(super) fn kind(&self) -> AdapterKind {
        self.adapter.kind()
    }

    pub(super) fn ready(&self, target: &Target) -> Result<(), CallError> {
        self.adapter.ready(target)
    }

    /// Answers everything but a call. A notification has no answer.
    pub(super) fn answer_control(&self, request: &Request) -> Option<Response> {
        let Some(id) = request.id.clone() else {
            if request.method == "notifications/initialized" && self.stage.load(Ordering::Acquire) == GREETED
            {
                self.stage.store(READY, Ordering::Release);
            }
            return None;
        };
        let outcome = match request.method.as_str() {
            "initialize" => self.initialize(),
            "ping" => Ok(json!({})),
            "tools/list" => self.require_ready().map(|()| self.list()),
            "tools/call" => Err(fault(code::INVALID_PARAMS, "a call comes with its permit")),
            _ => Err(fault(code::METHOD_NOT_FOUND, "an adapter has no such method")),
        };
        Some(match outcome {
            Ok(result) => Response::result(id, result),
            Err(error) => Response::error(Some(id), error),
        })
    }

    /// Answers a `tools/call`. The envelope must say what the permit says.
    pub(super) async fn call(&self, request: &Request, lent: Lent) -> Response {
        let Some(id) = request.id.clone() else {
            return Response::error(None, fault(code::INVALID_REQUEST, "a call has an id"));
        };
        if let Err(error) = self.check_call(request, &lent.call) {
            return Response::error(Some(id), error);
        }
        let result = match self.adapter.execute(lent.call, lent.credential).await {
            Ok(output) => success(output),
            Err(error) => failure(error),
        };
        Response::result(id, result)
    }

    fn initialize(&self) -> Result<Value, RpcError> {
        if self.stage.compare_exchange(FRESH, GREETED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(fault(code::INVALID_REQUEST, "the handshake is done once"));
        }
        Ok(json!({
            "protocolVersion": MCP_PROTOCOL_VERSION,
            "capabilities": {"tools": {}},
            "serverInfo": {
                "name": format!("coreci-adapter-{}", self.kind()), "version": env!("CARGO_PKG_VERSION"),
            },
        }))
    }

    fn list(&self) -> Value {
        let own = catalogue().iter().filter(|tool| tool.name.kind() == self.kind());
        json!({"tools": own.map(Tool::canonical).collect::<Vec<_>>()})
    }

    fn require_ready(&self) -> Result<(), RpcError> {
        if self.stage.load(Ordering::Acquire) == READY {
            Ok(())
        } else {
            Err(fault(code::INVALID_REQUEST, "the handshake comes first"))
        }
    }

    fn check_call(&self, request: &Request, call: &PermittedCall) -> Result<(), RpcError> {
        self.require_ready()?;
        if request.method != "tools/call" {
            return Err(fault(code::METHOD_NOT_FOUND, "an adapter has no such method"));
        }
        let params = request.params.clone().unwrap_or_default();
        let params: CallToolParams = serde_json::from_value(params)
            .map_err(|_| fault(code::INVALID_PARAMS, "a call has a name and an object of arguments"))?;
        let tool = ToolName::parse(&params.name).filter(|tool| tool.kind() == self.kind());
        if tool.is_none() {
            return Err(fault(code::INVALID_PARAMS, "Unknown tool"));
        }
        if tool != Some(call.tool()) || params.arguments != *call.args() {
            return Err(fault(code::INVALID_PARAMS, "the permit is for another call"));
        }
        Ok(())
    }
}

/// Built by hand, so that a large answer is moved into its envelope and not copied.
fn success(output: ToolOutput) -> Value {
    let ToolOutput { structured, facts } = output;
    let data = Value::Object(structured.into_map());
    let mut result = Map::new();
    result.insert("content".to_owned(), json!([{"type": "text", "text": data.to_string()}]));
    result.insert("structuredContent".to_owned(), data);
    result.insert("isError".to_owned(), Value::Bool(false));
    if !facts.is_empty() {
        result.insert("_meta".to_owned(), json!({ FACTS: facts }));
    }
    Value::Object(result)
}

fn failure(error: AdapterError) -> Value {
    let result = mcp_core::mcp::CallToolResult::failure(&CallError::Adapter(error));
    serde_json::to_value(result).unwrap_or_default()
}

fn fault(code: i64, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned(), data: None }
}
