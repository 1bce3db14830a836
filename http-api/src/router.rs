//! The route table: every route names its action, or says that it is public and why that is safe.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::handler::Handler;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use mcp_core::error::ErrorCode;
use mcp_core::principal::Action;

use crate::api::Api;
use crate::error::ApiError;
use crate::gate::{Gate, pass};
use crate::network::{check_host, check_origin};
use crate::request_id::identify;
use crate::routes::{
    adapters, audit, calls, health, keys, mcp, me, protected_resource, relay, targets, tools,
};

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever's role carries the action.
    Needs(Action),
    /// Anybody, because of this.
    Public(&'static str),
}

/// One line of the route table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// HTTP method.
    pub method: &'static str,
    /// Path, with `{parameters}`.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
}

/// Collects routes. There is no way to add one without saying who may use it.
struct Routes {
    api: Arc<Api>,
    router: Router<Arc<Api>>,
}

impl Routes {
    fn add<H, T>(mut self, route: Route, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        let filter = match route.method {
            "GET" => MethodFilter::GET,
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            other => unreachable!("the route table names a method that is not served: {other}"),
        };
        let mut method: MethodRouter<Arc<Api>> = on(filter, handler);
        if let Access::Needs(action) = route.access {
            let gate = Gate { api: Arc::clone(&self.api), action };
            method = method.layer(from_fn_with_state(gate, pass));
        }
        self.router = self.router.route(route.path, method);
        self
    }
}

macro_rules! routes {
    ($($method:literal $path:literal $access:expr => $handler:path;)*) => {
        /// Every route of the public listener.
        #[must_use]
        pub fn route_table() -> &'static [Route] {
            const TABLE: &[Route] = &[$(Route { method: $method, path: $path, access: $access },)*];
            TABLE
        }

        fn add_all(routes: Routes) -> Routes {
            routes$(.add(Route { method: $method, path: $path, access: $access }, $handler))*
        }
    };
}

use Access::{Needs, Public};

routes! {
    "GET" "/livez" Public("says only that the process runs") => health::livez;
    "GET" "/readyz" Public("says only which of our own parts work") => health::readyz;
    "GET" "/api/me" Needs(Action::MeRead) => me::show;
    "POST" "/mcp" Needs(Action::McpConnect) => mcp::post;
    "GET" "/.well-known/oauth-protected-resource" Public("says only whose tokens /mcp takes") => protected_resource::show;
    "GET" "/.well-known/oauth-protected-resource/mcp" Public("says only whose tokens /mcp takes") => protected_resource::show;
    "GET" "/api/mcp/tools" Needs(Action::ToolsList) => tools::list;
    "POST" "/api/mcp/invoke" Needs(Action::ToolsInvoke) => calls::invoke;
    "GET" "/api/mcp/stream/{call}" Needs(Action::CallsRead) => calls::stream;
    "GET" "/api/mcp/adapter" Needs(Action::AdaptersRead) => adapters::list;
    "POST" "/api/mcp/adapter" Needs(Action::AdaptersWrite) => adapters::create;
    "GET" "/api/mcp/adapter/{adapter}" Needs(Action::AdaptersRead) => adapters::show;
    "PATCH" "/api/mcp/adapter/{adapter}" Needs(Action::AdaptersWrite) => adapters::change;
    "DELETE" "/api/mcp/adapter/{adapter}" Needs(Action::AdaptersWrite) => adapters::remove;
    "POST" "/api/mcp/adapter/{adapter}/test" Needs(Action::AdaptersTest) => adapters::test;
    "GET" "/api/tools/policy" Needs(Action::ToolPolicyRead) => tools::policy;
    "PUT" "/api/tools/policy" Needs(Action::ToolPolicyWrite) => tools::set_policy;
    "GET" "/api/targets" Needs(Action::TargetsRead) => targets::list;
    "POST" "/api/targets/enrollments" Needs(Action::TargetsEnroll) => targets::enroll;
    "POST" "/api/targets/{target}/revoke" Needs(Action::TargetsRevoke) => targets::revoke;
    "GET" "/api/keys" Needs(Action::KeysRead) => keys::list;
    "POST" "/api/keys" Needs(Action::KeysCreate) => keys::create;
    "DELETE" "/api/keys/{key}" Needs(Action::KeysRevoke) => keys::revoke;
    "GET" "/api/audit" Needs(Action::AuditRead) => audit::list;
    "POST" "/api/audit/verify" Needs(Action::AuditVerify) => audit::verify;
    "GET" "/api/audit/export" Needs(Action::AuditExport) => audit::export;
    "POST" "/api/relay/enroll" Public("the single-use token in the body is the credential") => relay::enroll;
    "GET" "/api/relay/ws" Public("the agent proves its key as the first thing on the socket") => relay::connect;
}

/// The router of the public listener.
pub fn public_router(api: Arc<Api>) -> Router {
    let hosts = api.settings.allowed_hosts.clone();
    let origins = api.settings.allowed_origins.clone();
    let routes = add_all(Routes { api: Arc::clone(&api), router: Router::new() });
    routes
        .router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(origins, check_origin))
        .layer(from_fn_with_state(hosts, check_host))
        .layer(from_fn(identify))
        .with_state(api)
}

/// The router of the internal listener: metrics, and nothing of any tenant. `render` writes the metrics.
pub fn internal_router(render: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let metrics = move |State(()): State<()>| async move {
        ([(http::header::CONTENT_TYPE, "text/plain; version=0.0.4")], render())
    };
    Router::new()
        .route("/livez", axum::routing::get(health::livez))
        .route("/metrics", axum::routing::get(metrics))
        .fallback(not_found)
        .layer(from_fn(identify))
        .with_state(())
}

async fn not_found() -> ApiError {
    ApiError::not_found("route")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, "this route does not take that method")
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: REQ-005, S-11, C-A08
    #[test]
    fn the_route_table_is_as_committed() {
        let lines: Vec<_> = route_table()
            .iter()
            .map(|route| {
                let access = match route.access {
                    Access::Needs(action) => action.as_str().to_owned(),
                    Access::Public(why) => format!("public: {why}"),
                };
                format!("{:<7} {:<32} {access}", route.method, route.path)
            })
            .collect();
        insta::assert_snapshot!("routes", lines.join("\n"));
    }
}
