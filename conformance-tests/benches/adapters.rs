//! What a live adapter call adds to a bare GET of the same fake, and what a large answer costs.
//!
//! One run prints the figures: medians of alternating calls, so that a machine that slows down slows both.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapter_github::{GithubAdapter, GithubOptions};
use adapter_proxmox::{ProxmoxAdapter, ProxmoxOptions};
use adapter_ssh::whitelist::CommandScreen;
use egress::testing::{FakeServer, Reply, StaticResolver, loopback_policy};
use egress::{EgressUrl, TlsTrust, UpstreamClient};
use mcp_broker::memory::{Limits, MemoryAudit, MemoryDirectory, MemoryLimiter, MemoryStreams};
use mcp_broker::{Broker, CallRequest, Ports};
use mcp_core::adapter::{Adapter, Route, Target};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::id::{InstanceId, PrincipalId, TargetId, TenantId};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::secret::{SecretProvider, SecretValue};
use mcp_core::tool::proxmox::GuestType;
use mcp_core::tool::{AdapterKind, ToolName};
use secrets::MemorySecrets;
use serde_json::{Value, json};
use uuid::Uuid;

const CALLS: usize = 2_000;
const TENANT: TenantId = TenantId::from_uuid(Uuid::from_u128(1));

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Memory first, while the process is small and has nothing freed to reuse.
    large_answer();
    endless_answer().await;
    overhead().await;
}

/// Medians of a bare GET and of a call through the whole pipeline, taken in turn.
async fn overhead() {
    let fake = FakeServer::http().await;
    let run = json!({
        "id": 7, "run_number": 3, "name": "ci", "head_branch": "main", "head_sha": "abc", "event": "push",
        "status": "completed", "conclusion": "success", "html_url": "https://forge.example/7",
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:01:00Z", "actor": {"login": "ada"},
    });
    fake.fallback(Reply::json(200, run));
    let adapter = Arc::new(GithubAdapter::new(client(&fake), GithubOptions::default()));
    let token =
        "github_pat_11AAAAAAA0aaaaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let broker = broker(adapter, AdapterKind::Github, token).await;
    let args = json!({"owner": "o", "repo": "r", "run_id": 7});
    let mut bare = bare::Connection::open(&fake.url()).await;

    let (mut plain, mut piped) = (Vec::new(), Vec::new());
    for round in 0..CALLS {
        let started = Instant::now();
        bare.get("/repos/o/r/actions/runs/7").await;
        let plain_took = started.elapsed();
        let started = Instant::now();
        let told = call(&broker, ToolName::GithubGetWorkflowRun, &args).await;
        let piped_took = started.elapsed();
        assert!(told.is_ok(), "{told:?}");
        // The first calls open connections.
        if round >= 100 {
            plain.push(plain_took);
            piped.push(piped_took);
        }
    }
    let (plain, piped) = (median(plain), median(piped));
    println!("bare GET of the fake             p50 {:>7.1} us", micros(plain));
    println!("live adapter call, ports in memory p50 {:>5.1} us", micros(piped));
    println!(
        "the adapter call adds            p50 {:>7.1} us (goal: at most 150)",
        micros(piped.saturating_sub(plain))
    );
}

/// 50 000 rows in about 4 MiB, normalised.
fn large_answer() {
    // Written as text, so that building it leaves no memory behind for the measured part to reuse.
    let mut body = String::with_capacity(4 << 20);
    for n in 0..50_000 {
        let comma = if n == 0 { "" } else { "," };
        let row = format_args!(
            r#"{comma}{{"vmid":{},"name":"machine-{n:06}","status":"running","cpu":0.25,"mem":1}}"#,
            100 + n
        );
        std::fmt::Write::write_fmt(&mut body, row).expect("a text grows");
    }
    let body = format!(r#"{{"data":[{body}]}}"#);
    let before = peak_from_here();
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let list = adapter_proxmox::normalise(GuestType::Qemu, &body).expect("a list");
        times.push(started.elapsed());
        assert!(!list.vms.is_empty());
    }
    let extra = peak_kib().saturating_sub(before);
    println!(
        "{:.1} MiB, 50 000 rows normalised in {:.0} ms (goal: at most 150), peak +{:.1} MiB (goal: at most 40)",
        body.len() as f64 / 1_048_576.0,
        median(times).as_secs_f64() * 1e3,
        extra as f64 / 1024.0,
    );
}

/// An upstream that never stops sending is cut at the cap.
async fn endless_answer() {
    let fake = FakeServer::http().await;
    fake.fallback(Reply::json(200, json!({"data": []})).endless());
    let adapter =
        Arc::new(ProxmoxAdapter::new(client(&fake), ProxmoxOptions { allow_overprivileged: false }));
    let broker =
        broker(adapter, AdapterKind::Proxmox, "audit@pve!ro=11111111-2222-3333-4444-555555555555").await;
    let before = peak_from_here();
    let started = Instant::now();
    let told = call(&broker, ToolName::ProxmoxGetNodeMetrics, &json!({"node": "pve1"})).await;
    assert_eq!(told.err(), Some(CallError::Adapter(AdapterError::TooLarge)));
    let extra = peak_kib().saturating_sub(before);
    println!(
        "an endless answer is cut after {:.0} ms with peak +{:.1} MiB",
        started.elapsed().as_secs_f64() * 1e3,
        extra as f64 / 1024.0,
    );
}

fn client(fake: &FakeServer) -> UpstreamClient {
    let policy = loopback_policy();
    let url = EgressUrl::parse(&fake.url(), &policy).expect("a URL");
    let resolver = Arc::new(StaticResolver::loopback());
    UpstreamClient::new(url, TlsTrust::System, policy, resolver).expect("a client")
}

async fn broker(adapter: Arc<dyn Adapter>, kind: AdapterKind, credential: &str) -> Broker {
    let secrets = Arc::new(MemorySecrets::default());
    let credential = SecretValue::new(credential.to_owned());
    let reference = secrets.put(TENANT, "bench", credential).await.expect("stored");
    let directory = Arc::new(MemoryDirectory::default());
    let target =
        Target { tenant: TENANT, id: TargetId::from_uuid(Uuid::from_u128(2)), name: "t".to_owned(), kind };
    directory.add(Route { target, adapter, credential: Some(reference), config_version: 1 });
    let plenty = NonZeroU32::MAX;
    let ports = Ports {
        audit: Arc::new(MemoryAudit::forgetful()),
        limiter: Arc::new(MemoryLimiter::new(Limits { user_per_min: plenty, tenant_per_min: plenty })),
        directory,
        secrets,
        streams: Arc::new(MemoryStreams::start()),
    };
    Broker::builder(ports, InstanceId::from_uuid(Uuid::from_u128(3)))
        .screen(ToolName::SshRunWhitelistedCommand, Arc::new(CommandScreen))
        .build()
        .expect("a broker")
}

async fn call(broker: &Broker, tool: ToolName, args: &Value) -> Result<(), CallError> {
    let principal = Principal {
        tenant: TENANT,
        id: PrincipalId::from_uuid(Uuid::from_u128(4)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    };
    let request = CallRequest {
        principal: Arc::new(principal),
        tool: tool.as_str().to_owned(),
        target: None,
        args: args.as_object().cloned().unwrap_or_default(),
    };
    broker.call(request).await?.result.map(drop)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Starts the measure of peak memory anew, and answers with the memory held now, KiB.
fn peak_from_here() -> u64 {
    // "5" resets the high-water mark (proc(5)).
    std::fs::write("/proc/self/clear_refs", "5").expect("the kernel resets the mark");
    status_kib("VmRSS:")
}

/// The most memory held since [`peak_from_here`], KiB.
fn peak_kib() -> u64 {
    status_kib("VmHWM:")
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

/// The least that a GET over a kept connection can be: hyper, and nothing around it.
mod bare {
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Bytes;
    use hyper::client::conn::http1::{SendRequest, handshake};
    use hyper_util::rt::TokioIo;

    pub(super) struct Connection {
        sender: SendRequest<Empty<Bytes>>,
        host: String,
    }

    impl Connection {
        pub(super) async fn open(url: &str) -> Self {
            let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
            let stream = tokio::net::TcpStream::connect(&host).await.expect("connected");
            stream.set_nodelay(true).expect("a socket");
            let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a handshake");
            tokio::spawn(connection);
            Self { sender, host }
        }

        pub(super) async fn get(&mut self, path: &str) {
            let request =
                hyper::Request::get(path).header("host", &self.host).body(Empty::new()).expect("a request");
            self.sender.ready().await.expect("ready");
            let answer = self.sender.send_request(request).await.expect("an answer");
            let body = answer.into_body().collect().await.expect("a body").to_bytes();
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        }
    }
}
