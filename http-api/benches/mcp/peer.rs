//! The crate `mcp-proxy` beside us: bearer authentication, one upstream.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::load::{Load, call_body, once};
use crate::process::Child;

const KEY: &str = "bench";

/// The program, if one is named.
#[expect(clippy::disallowed_methods, reason = "a benchmark has no settings")]
pub(crate) fn program() -> Option<PathBuf> {
    std::env::var("CORECI_BENCH_MCP_PROXY").ok().map(PathBuf::from)
}

/// Starts it in front of a small MCP server.
pub(crate) fn start(program: &Path, caching: bool) -> Child {
    // The upstream ends with this process: nothing else holds its input open.
    let upstream = Box::leak(Box::new(Child::start("upstream")));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cache = if caching { "[backends.cache]\ntool_ttl_seconds = 60\n" } else { "" };
    let config = format!(
        "[proxy]\nname = \"bench\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
         [auth]\ntype = \"bearer\"\ntokens = [\"{KEY}\"]\n\
         [[backends]]\nname = \"up\"\ntransport = \"http\"\nurl = \"http://{}/mcp\"\n{cache}\
         [observability]\nlog_level = \"error\"\n",
        upstream.address
    );
    let file = std::env::temp_dir().join(format!("coreci-bench-mcp-proxy-{port}.toml"));
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).env("TOKIO_WORKER_THREADS", "2").stdout(Stdio::null());
    let process = command.spawn().unwrap();
    let address = format!("127.0.0.1:{port}");
    for _ in 0..100 {
        if std::net::TcpStream::connect(&address).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Child::of(process, address, KEY)
}

/// The same call, within a session, which it wants.
pub(crate) fn load(server: &Child) -> Load {
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = once(&Load::post(server, "/", &[], initialize.to_string().into_bytes()));
    let session = answer.headers.iter().find(|(name, _)| name == "mcp-session-id");
    let session = session.map(|(_, id)| id.clone()).unwrap_or_default();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-06-18")];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    once(&Load::post(server, "/", &headers, ready.to_string().into_bytes()));
    let load = Load::post(server, "/", &headers, call_body("up/github__list_repos"));
    crate::load::one_answer(&load);
    load
}
