//! A POST to `/mcp` that consists of any headers and any body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use mcp_broker::transport::ToolServer;
use mcp_broker::transport::http::McpEndpoint;
use mcp_core::id::{PrincipalId, TenantId};
use mcp_core::json;
use mcp_core::jsonrpc::RpcError;
use mcp_core::mcp::{CallToolParams, CallToolResult, Tool};
use mcp_core::principal::{Grants, Principal};
use mcp_core::tool::{ToolOutput, catalogue};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The input is lines `name: value`, an empty line and the body; without the empty line it is all body.
///
/// # Panics
/// When an answer is not one of MCP over HTTP, names another id than the request, or a tool was called by a message that
/// is no `tools/call`; and when the endpoint does not answer a `ping` afterwards.
pub fn envelope(input: &[u8]) {
    thread_local! {
        static BENCH: Bench = Bench::new();
    }
    BENCH.with(|bench| bench.check(input));
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    endpoint: McpEndpoint,
    tools: Arc<Counting>,
    caller: Arc<Principal>,
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let tools = Arc::new(Counting(AtomicUsize::new(0)));
        let caller = Principal {
            tenant: TenantId::from_uuid(Uuid::from_u128(1)),
            id: PrincipalId::from_uuid(Uuid::from_u128(2)),
            key: None,
            role: "operator",
            grants: Grants::none(),
        };
        Self {
            runtime: runtime.expect("a runtime of one thread"),
            endpoint: McpEndpoint::new(Arc::clone(&tools) as Arc<dyn ToolServer>),
            tools,
            caller: Arc::new(caller),
        }
    }

    fn check(&self, input: &[u8]) {
        let (head, body) = split(input);
        let mut request = post(Bytes::copy_from_slice(body));
        for (name, value) in head {
            request.headers_mut().append(name, value);
        }
        let calls = self.tools.0.load(Ordering::Relaxed);
        let (status, answer) = self.answer(request);
        let calls = self.tools.0.load(Ordering::Relaxed) - calls;

        let message = json::parse(body).ok();
        let field = |name: &str| message.as_ref().and_then(|message| message.get(name));
        assert!(calls <= usize::from(field("method") == Some(&"tools/call".into())), "a tool was called");
        assert_answer(status, &answer, field("id"));

        let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
        let (status, answer) = self.answer(post(ping));
        assert_eq!(
            (status, &answer[..]),
            (StatusCode::OK, &br#"{"jsonrpc":"2.0","id":"p","result":{}}"#[..])
        );
    }

    fn answer(&self, request: Request<Bytes>) -> (StatusCode, Bytes) {
        self.runtime.block_on(async {
            let (parts, body) = self.endpoint.answer(request, Arc::clone(&self.caller)).await.into_parts();
            let Ok(body) = body.collect().await;
            (parts.status, body.to_bytes())
        })
    }
}

/// A request as the route lets it through.
fn post(body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

/// A notification's answer is empty; everything else is one JSON-RPC response under the id that was sent, or under none if
/// that could not be read.
fn assert_answer(status: StatusCode, answer: &[u8], sent_id: Option<&Value>) {
    assert!(!status.is_server_error() && !status.is_informational(), "{status}");
    if status == StatusCode::ACCEPTED {
        assert!(answer.is_empty(), "an answer to a notification");
        return;
    }
    let answer: Map<String, Value> = serde_json::from_slice(answer).expect("the answer is a JSON object");
    assert_eq!(answer.get("jsonrpc"), Some(&Value::from("2.0")));
    let id = answer.get("id").filter(|id| !id.is_null());
    assert!(id.is_none() || id == sent_id, "sent {sent_id:?}, answered {id:?}");
    match (answer.get("result"), answer.get("error")) {
        (Some(_), None) => assert_eq!((status, id), (StatusCode::OK, sent_id)),
        (None, Some(error)) => {
            assert!(error["code"].is_i64(), "{error}");
            assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        }
        both_or_none => panic!("a result or an error, not {both_or_none:?}"),
    }
}

/// The headers and the body, without headers that the route has looked at.
fn split(input: &[u8]) -> (Vec<(HeaderName, HeaderValue)>, &[u8]) {
    let Some(end) = input.windows(2).position(|pair| pair == b"\n\n") else {
        return (Vec::new(), input);
    };
    let header = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let is_the_routes = [header::HOST, header::ORIGIN, header::CONTENT_TYPE].contains(&name);
        (!is_the_routes).then_some((name, value))
    };
    (input[..end].split(|byte| *byte == b'\n').filter_map(header).collect(), &input[end + 2..])
}

/// Tools that count their calls.
struct Counting(AtomicUsize);

#[async_trait]
impl ToolServer for Counting {
    async fn instructions(&self, _: &Principal) -> Result<String, RpcError> {
        Ok(String::new())
    }

    async fn list(&self, _: &Principal) -> Result<Vec<Tool>, RpcError> {
        Ok(catalogue().iter().map(Tool::on_the_wire).collect())
    }

    async fn call(&self, _: Arc<Principal>, params: CallToolParams) -> Result<CallToolResult, RpcError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(CallToolResult::success(ToolOutput::new(params.arguments)))
    }

    async fn mismatch(&self, _: &Principal, _: &str) {}
}
