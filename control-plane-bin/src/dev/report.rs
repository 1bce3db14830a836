//! What `dev` shows of its first call.

use serde_json::{Value, json};

use super::demo::KEY_FILE;
use crate::client::{DEV_JSON, DevJson};
use crate::data_dir::DataDir;
use crate::output::line;

/// The first call and what the audit log says of it.
pub(super) struct Report {
    pub(super) tool: &'static str,
    pub(super) command: &'static str,
    pub(super) target_id: String,
    pub(super) correlation_id: String,
    pub(super) result: Value,
    pub(super) audit: Value,
    pub(super) start_ms: u128,
    pub(super) call_ms: u128,
}

impl Report {
    /// Whether the call succeeded and the chain is intact.
    pub(super) fn is_good(&self) -> bool {
        self.result["isError"] == json!(false) && self.audit["verified"] == json!(true)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "tool": self.tool,
            "targetId": self.target_id,
            "correlationId": self.correlation_id,
            "result": self.result,
            "audit": {
                "verified": self.audit["verified"],
                "rows": self.audit["rows"],
                "headHash": self.audit["headHash"],
            },
            "timings": {
                "startMs": u64::try_from(self.start_ms).unwrap_or(u64::MAX),
                "callMs": u64::try_from(self.call_ms).unwrap_or(u64::MAX),
            },
        })
    }

    pub(super) fn print(&self) {
        let output = &self.result["structuredContent"];
        let hash = self.audit["headHash"].as_str().unwrap_or_default();
        line(&format!("call      {} \"{}\" on this machine", self.tool, self.command));
        line(&format!("answer    {}", output["stdout"].as_str().unwrap_or_default().trim()));
        line(&format!("exit code {}", output["exitCode"]));
        line(&format!(
            "audit     {} rows, head {}…, {}",
            self.audit["rows"],
            hash.get(..16).unwrap_or(hash),
            self.audit["verdict"].as_str().unwrap_or_default()
        ));
        line(&format!("timings   ready after {} ms, call {} ms", self.start_ms, self.call_ms));
    }
}

/// What to try next, with lines that work when pasted.
pub(super) fn how_to_go_on(data: &DataDir, dev: &DevJson) -> String {
    let key = data.path().join(KEY_FILE);
    let program = std::env::current_exe().unwrap_or_else(|_| "control-plane".into());
    let program = program.display();
    let (url, key, dev_json) = (&dev.url, key.display(), data.path().join(DEV_JSON));
    format!(
        "\nCoreCI is up at {url}\n\
         admin key   {key}\n\
         for scripts {dev_json}\n\n\
         Try it:\n  \
         curl -s -H \"Authorization: Bearer $(cat '{key}')\" -H 'Content-Type: application/json' \\\n    \
         -d '{{\"tool\":\"ssh.run_whitelisted_command\",\"args\":{{\"command\":\"df -h\"}}}}' \\\n    \
         '{url}/api/mcp/invoke?wait=true'\n\n\
         Connect a client (claude-desktop, claude-code, vscode, cursor, codex, inspector, curl):\n  \
         '{program}' --data-dir '{directory}' connect claude-code --write\n\n\
         Ctrl-C stops it.",
        dev_json = dev_json.display(),
        directory = data.path().display(),
    )
}
