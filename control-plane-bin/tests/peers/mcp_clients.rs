//! MCP's own SDKs of both generations, and its Inspector, as clients of `/mcp` and of the bridge on pipes.

use std::os::unix::fs::PermissionsExt as _;

use mcp_core::tool::catalogue;
use serde_json::{Value, json};

use crate::agent::{Agent, agent};
use crate::program::{home, perform};
use crate::server::{Client, Server, control_plane, scratch};

/// One client and the way in which it finds the revision.
struct Peer {
    interpreter: &'static str,
    program: &'static str,
    mode: &'static str,
    /// What it and the server agree on.
    revision: &'static str,
}

const fn peer(
    interpreter: &'static str,
    program: &'static str,
    mode: &'static str,
    revision: &'static str,
) -> Peer {
    Peer { interpreter, program, mode, revision }
}

const PEERS: [Peer; 9] = [
    peer("mcp-py1/bin/python", "python_1.py", "", "2025-11-25"),
    peer("mcp-py2/bin/python", "python_2.py", "auto", "2026-07-28"),
    peer("mcp-py2/bin/python", "python_2.py", "legacy", "2025-11-25"),
    peer("mcp-py2/bin/python", "python_2.py", "2026-07-28", "2026-07-28"),
    peer("node24/node", "typescript_1.mjs", "", "2025-11-25"),
    peer("node24/node", "typescript_2.mjs", "auto", "2026-07-28"),
    peer("node24/node", "typescript_2.mjs", "legacy", "2025-11-25"),
    peer("node24/node", "inspector.mjs", "legacy", "2025-11-25"),
    peer("node24/node", "inspector.mjs", "modern", "2026-07-28"),
];

impl Peer {
    /// Does what a person would do first: looks at the tools and runs one.
    async fn try_out(&self, mut task: Value) {
        let who = format!("{} {}", self.program, self.mode);
        task["mode"] = json!(self.mode);
        task["tool"] = json!("ssh__run_whitelisted_command");
        task["arguments"] = json!({"command": "uptime"});
        let report = perform(self.interpreter, self.program, &task).await;

        assert_eq!(report["revision"], self.revision, "{who}");
        let nine: Vec<_> = catalogue().iter().map(|tool| tool.name.wire()).collect();
        assert_eq!(report["tools"], json!(nine), "{who}");
        let result = &report["result"];
        assert_ne!(result["isError"], true, "{who}: {result}");
        let structured = &result["structuredContent"];
        assert!(
            structured["stdout"].as_str().is_some_and(|text| text.contains("load average")),
            "{who}: {result}"
        );
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(&serde_json::from_str::<Value>(text).expect("JSON"), structured, "{who}");
        assert!(report["unknown"].is_null() || report["unknown"] == -32602, "{who}: {report}");
    }
}

/// A control plane with this machine as a target, and an operator's key for it.
struct World {
    server: Server,
    key: String,
    _agent: Agent,
    files: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        let files = scratch();
        let server = Server::start(&files.path().join("server")).await;
        let admin = Client::new(&server.url, &server.key("root", "admin"));
        let agent = agent(&admin, &server.url, &files.path().join("agent")).await;
        let key = server.key("model", "operator");
        Self { server, key, _agent: agent, files }
    }
}

// proves: X2-01, X2-02
#[tokio::test]
async fn every_client_finds_nine_tools_over_http_and_runs_one() {
    let world = World::start().await;
    for peer in PEERS {
        peer.try_out(json!({"url": format!("{}/mcp", world.server.url), "key": world.key})).await;
    }
}

// proves: M-09, X2-02
#[tokio::test]
async fn every_client_finds_nine_tools_on_pipes_and_runs_one() {
    let world = World::start().await;
    let key = world.files.path().join("key");
    std::fs::write(&key, &world.key).expect("written");
    let bridge = env!("CARGO_BIN_EXE_control-plane");
    let command = json!([bridge, "mcp-stdio", "--url", world.server.url, "--key-file", key]);
    for peer in PEERS {
        peer.try_out(json!({"command": command})).await;
    }
}

/// `npx` would fetch what is here already, so a program of that name stands in for it; all else runs as it is printed.
#[tokio::test]
async fn the_inspector_command_that_connect_prints_lists_nine_tools() {
    let world = World::start().await;
    let (key, npx) = (world.files.path().join("key"), world.files.path().join("npx"));
    std::fs::write(&key, &world.key).expect("written");
    let inspector = home().join("mcp-inspector/node_modules/.bin/mcp-inspector");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = '-y @modelcontextprotocol/inspector' ] || exit 2\nshift 2\nexec '{}' '{}' \"$@\"\n",
        home().join("node24/node").display(),
        inspector.display(),
    );
    std::fs::write(&npx, script).expect("written");
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o700)).expect("changed");
    let mut connect = control_plane(&world.files.path().join("nothing-here"));
    let printed = connect.args(["connect", "inspector", "--url", &world.server.url, "--key-file"]).arg(&key);
    let printed = printed.output().expect("it runs");
    assert!(printed.status.success());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.files.path().display());
    let mut shell = std::process::Command::new("sh");
    shell.env("PATH", path).arg("-c").arg(String::from_utf8(printed.stdout).expect("text"));
    let output = shell.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert_eq!(answer["tools"].as_array().map(Vec::len), Some(9), "{answer}");
}
