//! What the handlers share, wired once by the binary.

use std::sync::Arc;

use adapter_ssh::Hub;
use async_trait::async_trait;
use identity::Authenticator;
use ipnet::IpNet;
use mcp_broker::transport::http::McpEndpoint;
use mcp_broker::{Broker, OncePerMinute};
use mcp_core::audit::AuditSink;
use tenancy::Tenancy;

use crate::adapters::Adapters;
use crate::cursor::CursorKey;
use crate::network::{AllowedHosts, AllowedOrigins};

/// The services behind the routes. UI handlers call the same ones.
pub struct Api {
    /// The call pipeline.
    pub broker: Arc<Broker>,
    /// The broker's tools over MCP.
    pub mcp: McpEndpoint,
    /// Tenant data.
    pub tenancy: Tenancy,
    /// Keys to principals.
    pub authenticator: Authenticator,
    /// Configures adapters.
    pub adapters: Adapters,
    /// Live agents.
    pub hub: Arc<Hub>,
    /// The audit log, for appending.
    pub audit: Arc<dyn AuditSink>,
    /// Refused enrolments that were written down lately.
    pub enroll_failures: OncePerMinute<()>,
    /// Whether this process can serve.
    pub readiness: Arc<dyn Readiness>,
    /// Settings of the HTTP surface.
    pub settings: ApiSettings,
}

/// Settings of the HTTP surface.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// Where clients and agents reach this server, without a trailing slash.
    pub public_url: String,
    /// The hosts that a request may name.
    pub allowed_hosts: AllowedHosts,
    /// The web pages that a request may come from.
    pub allowed_origins: AllowedOrigins,
    /// The issuer whose access tokens are taken at `/mcp`, if one is configured.
    pub token_issuer: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Signs page cursors, so that they cannot be made up or carried to another tenant.
    pub cursor_key: CursorKey,
}

impl ApiSettings {
    /// The MCP endpoint as access tokens and their metadata name it (RFC 8707, RFC 9728).
    #[must_use]
    pub fn mcp_resource(&self) -> String {
        format!("{}/mcp", self.public_url)
    }
}

/// Something that must work for this process to be ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCheck {
    /// Its name in the answer of `/readyz`.
    pub name: &'static str,
    /// Whether it works.
    pub ok: bool,
}

/// Says whether this process can serve.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// The state of everything that a request needs.
    async fn checks(&self) -> Vec<ReadyCheck>;
}
