//! Arguments and result of `ssh.run_whitelisted_command`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of `ssh.run_whitelisted_command`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCommandArgs {
    /// Id or name of the host; needed only when there are several.
    #[schemars(length(min = 1, max = 64))]
    pub target_id: Option<String>,
    /// One of: uptime | df -h | free -m | systemctl status UNIT | journalctl -n 1..500 |
    /// systemctl list-units --type=service.
    #[schemars(length(min = 1, max = 320))]
    pub command: String,
}

/// What the command printed. A non-zero exit is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandOutput {
    /// Standard output, at most 128 KiB.
    pub stdout: String,
    /// Standard error, at most 16 KiB.
    pub stderr: String,
    /// The command's exit code.
    pub exit_code: i32,
    /// True when output was cut to its limit.
    pub truncated: bool,
}
