//! rmcp's server trait over a [`ToolServer`]: nothing here decides anything.

use std::borrow::Cow;
use std::sync::Arc;

use mcp_core::jsonrpc::RpcError;
use mcp_core::mcp::{CallToolParams, CallToolResult, Content, TextResource, Tool};
use mcp_core::principal::Principal;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, ResourceContents,
    ServerCapabilities, ServerConfig, ToolAnnotations, ToolsCapability,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::server::{ToolServer, for_clients};

/// The revisions that are negotiated, oldest first.
pub(super) const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The methods that this server has. One of them with parameters that do not fit is a bad call of a known method.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];

/// The same, since 2026-07-28: there is no handshake any more.
const METHODS_WITHOUT_HANDSHAKE: [&str; 3] = ["server/discover", "tools/call", "tools/list"];

/// The authenticated caller of a message, as the endpoint attaches it.
#[derive(Clone)]
pub(super) struct Caller(pub(super) Arc<Principal>);

/// One endpoint's handler.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<dyn ToolServer>,
}

impl ServerHandler for Handler {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&REVISIONS)
    }

    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(false);
        capabilities.tools = Some(tools);
        let mut implementation = Implementation::new("coreci", env!("CARGO_PKG_VERSION"));
        implementation.title = Some("CoreCI".to_owned());
        let mut info = ServerConfig::new(capabilities);
        info.server_info = implementation;
        // What a client that knows none of our revisions is offered.
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let caller = caller(&context)?;
        let mut info = self.negotiate_initialize(&request)?;
        info.instructions = Some(self.server.instructions(&caller).await.map_err(to_rmcp)?);
        context.peer.set_peer_info(request);
        Ok(info)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        info.instructions = Some(self.server.instructions(&*caller(&context)?).await.map_err(to_rmcp)?);
        // Private, and never kept: what a caller may see can change with every request.
        Ok(DiscoverResult::from_server_info(REVISIONS.to_vec(), info))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.server.list(&*caller(&context)?).await.map_err(to_rmcp)?;
        let mut result = ListToolsResult::with_all_items(tools.into_iter().map(tool_to_rmcp).collect());
        result.ttl_ms = Some(0);
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let params = CallToolParams {
            name: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
        };
        let call = self.server.call(caller(&context)?, params);
        tokio::select! {
            biased;
            result = call => result.map(result_to_rmcp).map_err(to_rmcp),
            // The response was closed. Dropping the call stops it; nobody reads this answer.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let has_handshake = context.protocol_version().is_none_or(|revision| revision.has_initialize());
        let methods = if has_handshake { &METHODS[..] } else { &METHODS_WITHOUT_HANDSHAKE[..] };
        if methods.contains(&request.method.as_str()) {
            let message = format!("the params of {} are not of the expected form", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        let method: String = request.method.chars().filter(|c| !c.is_control()).take(80).collect();
        let message = format!("there is no method {method}; methods are case-sensitive");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

/// Who asks. A message without a caller is a defect of the door, and must not become an open one.
fn caller(context: &RequestContext<RoleServer>) -> Result<Arc<Principal>, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
    caller.map(|caller| Arc::clone(&caller.0)).ok_or_else(|| ErrorData::internal_error("no caller", None))
}

fn to_rmcp(error: RpcError) -> ErrorData {
    let code = i32::try_from(error.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    ErrorData::new(code, error.message, error.data)
}

fn tool_to_rmcp(tool: Tool) -> rmcp::model::Tool {
    let object = |schema: Value| match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    };
    let annotations = ToolAnnotations::from_raw(
        tool.annotations.title,
        Some(tool.annotations.read_only_hint),
        None,
        Some(tool.annotations.idempotent_hint),
        Some(tool.annotations.open_world_hint),
    );
    let mut wire = rmcp::model::Tool::new(tool.name, tool.description, object(tool.input_schema));
    wire.title = Some(tool.title);
    wire.output_schema = tool.output_schema.map(object);
    wire.annotations = Some(annotations);
    wire
}

fn result_to_rmcp(result: CallToolResult) -> CallToolResponse {
    let result = for_clients(result);
    let content = result.content.into_iter().map(content_to_rmcp).collect();
    let mut wire = if result.is_error {
        rmcp::model::CallToolResult::error(content)
    } else {
        let mut wire = rmcp::model::CallToolResult::success(content);
        wire.structured_content = result.structured_content.map(|data| Value::Object(data.into_map()));
        wire
    };
    wire.meta = (!result.meta.is_empty()).then_some(MetaObject(result.meta));
    wire.into()
}

fn content_to_rmcp(content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::text(text),
        Content::Image { data, mime_type } => ContentBlock::image(data, mime_type),
        Content::Audio { data, mime_type } => ContentBlock::audio(data, mime_type),
        Content::Resource { resource } => {
            let TextResource { uri, mime_type, text } = resource;
            ContentBlock::resource(ResourceContents::TextResourceContents {
                uri,
                mime_type,
                text,
                meta: None,
            })
        }
    }
}
