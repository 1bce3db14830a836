//! Streamable HTTP: sessionless, answers in JSON (SPEC §7). No session can be stolen, and none is lost at a restart.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use mcp_core::jsonrpc::{self, Id, Version};
use mcp_core::mcp::{CallToolParams, CallToolResult};
use mcp_core::principal::Principal;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Serialize;

use super::envelope::{self, ACCEPT_ALL, Message, Refusal};
use super::handler::{Caller, Handler};
use super::server::{ToolServer, for_clients};

/// Body of an answer; it is whole when the answer is made.
pub type McpBody = BoxBody<Bytes, Infallible>;

/// An MCP endpoint over HTTP, for whoever serves HTTP to put behind a route.
///
/// The route answers GET and DELETE with 405, and has dealt with everything that comes before a message by the time it
/// calls [`McpEndpoint::answer`]: Host and Origin, the credential, the media type and the size of the body.
pub struct McpEndpoint {
    server: Arc<dyn ToolServer>,
    service: StreamableHttpService<Handler, NeverSessionManager>,
}

impl McpEndpoint {
    /// An endpoint for these tools.
    #[must_use]
    pub fn new(server: Arc<dyn ToolServer>) -> Self {
        // Hosts and origins are the route's to check, for this and every other path, by the operator's lists.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_keep_alive(None)
            .with_sse_retry(None)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let handler = Handler { server: Arc::clone(&server) };
        let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config);
        Self { server, service }
    }

    /// Answers one POST of this caller.
    ///
    /// # Cancellation
    /// Dropping the future is the client's going away: a running call is stopped within a second and its intent closed.
    pub async fn answer(&self, request: Request<Bytes>, caller: Arc<Principal>) -> Response<McpBody> {
        let (mut parts, body) = request.into_parts();
        let id = match envelope::check(&parts.headers, &body) {
            Ok(Message::Call(id, call)) => return self.call(id, call, caller).await,
            Ok(Message::Other(id)) => id,
            Err(refusal) => {
                if let Some(tool) = &refusal.mismatched_tool {
                    self.server.mismatch(&caller, tool).await;
                }
                return refuse(&refusal);
            }
        };
        parts.headers.insert(header::ACCEPT, ACCEPT_ALL);
        // The credential has done its work; nothing further in is to see it.
        parts.headers.remove(header::AUTHORIZATION);
        parts.extensions.insert(Caller(caller));
        let answer = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        // What rmcp cannot read it refuses in plain words, which no client of JSON-RPC understands.
        if is_refusal(answer.status()) && !is_json(&answer) {
            return refuse(&Refusal::of_rmcp(answer.status(), id));
        }
        answer
    }

    /// A call needs nothing of rmcp, which would make a task, two channels and three copies of the result for it; and it is
    /// what this endpoint is asked most of all.
    async fn call(&self, id: Id, call: CallToolParams, caller: Arc<Principal>) -> Response<McpBody> {
        let body = match self.server.call(caller, call).await {
            Ok(result) => serde_json::to_vec(&Called { jsonrpc: Version, id, result: for_clients(result) }),
            Err(error) => serde_json::to_vec(&jsonrpc::Response::error(Some(id), error)),
        };
        json_response(StatusCode::OK, body.unwrap_or_default())
    }
}

/// The answer to a call, written without a [`serde_json::Value`] in between.
#[derive(Serialize)]
struct Called {
    jsonrpc: Version,
    id: Id,
    result: CallToolResult,
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn is_json(answer: &Response<McpBody>) -> bool {
    answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

fn refuse(refusal: &Refusal) -> Response<McpBody> {
    json_response(refusal.status, serde_json::to_vec(&refusal.answer).unwrap_or_default())
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response<McpBody> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
