//! A fake Proxmox VE, and a way to call the adapter as the pipeline does.

use std::sync::Arc;

use adapter_proxmox::{ProxmoxAdapter, ProxmoxOptions};
use egress::testing::{FakeServer, Reply, StaticResolver, loopback_policy};
use egress::{EgressUrl, ResolveError, TlsTrust, UpstreamClient};
use mcp_core::adapter::{Adapter, Target};
use mcp_core::audit::Receipt;
use mcp_core::check::{CheckReport, UpstreamAdapter};
use mcp_core::error::AdapterError;
use mcp_core::id::{CorrelationId, PrincipalId, TargetId, TenantId};
use mcp_core::policy::{PermittedCall, ToolPolicy, authorize, decide};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::secret::SecretValue;
use mcp_core::tool::AdapterKind;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The secret of the token; no answer and no message may hold it.
pub(crate) const SECRET: &str = "0f4e6a52-7a1f-4c0d-9b57-3c1f4be2a9d1";

/// A success.
pub(crate) fn data(data: Value) -> Reply {
    Reply::json(200, json!({"data": data}))
}

/// A failure as releases before late 8.x word it: the only text is the reason phrase.
pub(crate) fn refusal(status: u16, reason: &str) -> Reply {
    Reply::raw(status, reason, &[("connection", "close")], Vec::new())
}

/// Success with any body.
pub(crate) fn body(text: impl Into<Vec<u8>>) -> Reply {
    Reply::raw(200, "OK", &[("content-type", "application/json;charset=UTF-8")], text.into())
}

/// What release 9 answers when all is well; scripts/peers/check-fixtures holds these bodies to its own description.
const NEWEST: [(&str, &str); 8] = [
    ("version", include_str!("../fixtures/pve/version.json")),
    ("access/permissions", include_str!("../fixtures/pve/permissions.json")),
    ("nodes", include_str!("../fixtures/pve/nodes.json")),
    ("nodes/pve1/status", include_str!("../fixtures/pve/node_status.json")),
    ("nodes/pve1/qemu", include_str!("../fixtures/pve/qemu.json")),
    ("nodes/pve1/qemu/101/status/current", include_str!("../fixtures/pve/qemu_status.json")),
    ("nodes/pve1/lxc", include_str!("../fixtures/pve/lxc.json")),
    ("nodes/pve1/lxc/102/status/current", include_str!("../fixtures/pve/lxc_status.json")),
];

pub(crate) fn newest() -> Vec<(String, Reply)> {
    NEWEST.into_iter().map(|(path, text)| (format!("/api2/json/{path}"), body(text))).collect()
}

/// The pages of a fixture of an older release: a path, and what it answers.
pub(crate) fn fixture(pages: &str) -> Vec<(String, Reply)> {
    let pages: Map<String, Value> = serde_json::from_str(pages).expect("a fixture");
    pages.into_iter().map(|(path, body)| (path, Reply::json(200, body))).collect()
}

/// A fake Proxmox VE and its adapter. What has no page says, as the real one does, that there is no such file.
pub(crate) struct Pve {
    pub(crate) server: FakeServer,
}

impl Pve {
    pub(crate) async fn serving<P: AsRef<str>>(pages: impl IntoIterator<Item = (P, Reply)>) -> Self {
        let server = FakeServer::https().await;
        server.fallback(refusal(500, "Configuration file 'nodes/pve1/qemu-server/1.conf' does not exist"));
        for (path, reply) in pages {
            server.on(path.as_ref(), reply);
        }
        Self { server }
    }

    /// The adapter that an admin who gave the CA would get.
    pub(crate) fn adapter(&self, options: ProxmoxOptions) -> ProxmoxAdapter {
        self.adapter_trusting(TlsTrust::ca_pem(&self.server.ca_pem()).expect("a CA"), options)
    }

    pub(crate) fn adapter_trusting(&self, trust: TlsTrust, options: ProxmoxOptions) -> ProxmoxAdapter {
        let policy = loopback_policy();
        let base = EgressUrl::parse(&self.server.url(), &policy).expect("a URL");
        let resolver = Arc::new(StaticResolver::failing(ResolveError::NotFound));
        ProxmoxAdapter::new(UpstreamClient::new(base, trust, policy, resolver).expect("a client"), options)
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<Map<String, Value>, AdapterError> {
        call(&self.adapter(ProxmoxOptions::default()), tool, args).await
    }

    pub(crate) async fn check(&self, options: ProxmoxOptions) -> CheckReport {
        self.check_with(options, &credential()).await
    }

    pub(crate) async fn check_with(&self, options: ProxmoxOptions, credential: &SecretValue) -> CheckReport {
        self.adapter(options).check(credential).await
    }

    /// The paths asked for, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|seen| seen.path).collect()
    }

    /// Everything asked was a read with the token in its header, and with neither cookie nor CSRF token.
    #[track_caller]
    pub(crate) fn saw_only_token_reads(&self) {
        for seen in self.server.requests() {
            assert_eq!(seen.method, "GET", "{}", seen.path);
            assert_eq!(seen.query, "", "{}", seen.path);
            let header = |name| seen.headers.get(name).map(|value| value.to_str().expect("text"));
            assert_eq!(header("authorization"), Some(format!("PVEAPIToken={}", token()).as_str()));
            assert_eq!((header("cookie"), header("csrfpreventiontoken")), (None, None));
        }
    }
}

/// Runs one call as the pipeline does once everything before it has said yes.
pub(crate) async fn call(
    adapter: &ProxmoxAdapter,
    tool: &str,
    args: Value,
) -> Result<Map<String, Value>, AdapterError> {
    let output = adapter.execute(permitted(tool, args), Some(credential())).await;
    output.map(|output| output.structured.into_map())
}

pub(crate) fn token() -> String {
    format!("broker@pve!coreci={SECRET}")
}

pub(crate) fn credential() -> SecretValue {
    SecretValue::new(token())
}

pub(crate) fn permitted(tool: &str, args: Value) -> PermittedCall {
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    let principal = Arc::new(Principal {
        tenant,
        id: PrincipalId::from_uuid(Uuid::from_u128(2)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    });
    let authorized = authorize(principal, Action::ToolsInvoke).expect("granted");
    let args = args.as_object().expect("an object").clone();
    let permit = decide(authorized, tool, args, &ToolPolicy::default(), None).expect("decided");
    let id = TargetId::from_uuid(Uuid::from_u128(3));
    let target = Target { tenant, id, name: "lab".to_owned(), kind: AdapterKind::Proxmox };
    let correlation = CorrelationId::from_uuid(Uuid::from_u128(4));
    permit.bind(correlation, target, Receipt { tenant, seq: 1, hash: [0; 32] }).expect("bound")
}
