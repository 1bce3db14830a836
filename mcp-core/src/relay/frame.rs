//! The frames: JSON objects with a `type`. Unknown fields are ignored, so that either end may be newer.

use serde::{Deserialize, Serialize};

use super::MAX_FRAME_BYTES;
use crate::id::{AgentId, CorrelationId, TargetId};

/// What an agent says of its host. Shown to people; never decides anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    /// Name of the host.
    pub hostname: String,
    /// Name and version of its operating system.
    pub os: String,
    /// Its own idea of its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Version of the agent.
    pub version: String,
}

impl HostFacts {
    /// The facts with each text cut to 255 characters and freed of control characters: they come from a stranger.
    #[must_use]
    pub fn bounded(self) -> Self {
        let clean = |text: String| text.chars().filter(|c| !c.is_control()).take(255).collect::<String>();
        Self {
            hostname: clean(self.hostname),
            os: clean(self.os),
            ip: self.ip.map(clean),
            version: clean(self.version),
        }
    }
}

/// Frames from the control plane to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ServerFrame {
    /// Opens the link: prove who you are.
    Challenge {
        /// The protocol version.
        protocol: u32,
        /// Fresh randomness.
        nonce: String,
        /// Names this link.
        session: String,
    },
    /// The agent is registered.
    Registered {
        /// The target it stands for.
        target_id: TargetId,
        /// How often to ping, seconds.
        heartbeat_sec: u64,
    },
    /// Answers a ping.
    Pong,
    /// Run a command.
    ToolCall {
        /// The call.
        call_id: CorrelationId,
        /// Canonical text of one of the six commands.
        command: String,
        /// The agent takes the smaller of this and its own limit.
        timeout_ms: u64,
    },
    /// Stop a command.
    Cancel {
        /// The call.
        call_id: CorrelationId,
    },
    /// Something the agent sent was not understood.
    Error {
        /// What.
        error: String,
    },
    /// The control plane is going down; the agent should come back after this time.
    Goodbye {
        /// Milliseconds to wait, before jitter.
        reconnect_after_ms: u64,
    },
}

/// Frames from an agent to the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentFrame {
    /// Answers the challenge.
    Auth {
        /// The protocol version.
        protocol: u32,
        /// Who.
        agent_id: AgentId,
        /// Ed25519 over [`super::auth_message`], lower-case hexadecimal.
        signature: String,
    },
    /// Describes the host.
    Register(HostFacts),
    /// I am alive.
    Ping,
    /// What came of a command.
    ToolResult {
        /// The call.
        call_id: CorrelationId,
        /// Its output, or why it did not run.
        #[serde(flatten)]
        outcome: CommandOutcome,
    },
    /// Something the control plane sent was not understood.
    Error {
        /// What.
        error: String,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommandOutcome {
    /// It did not run, or not to its end.
    Failed {
        /// Why.
        code: FailureCode,
        /// In words.
        error: String,
        /// Always −1.
        #[serde(rename = "exitCode")]
        exit_code: i32,
    },
    /// It ran; a non-zero exit is an answer.
    Ran(RanCommand),
}

/// The output of a command that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RanCommand {
    /// Standard output, capped.
    pub stdout: String,
    /// Standard error, capped.
    pub stderr: String,
    /// Exit code; 128 plus the signal's number when a signal ended it.
    pub exit_code: i32,
    /// True when output was cut.
    #[serde(default)]
    pub truncated: bool,
}

/// Why a command did not run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The agent's own whitelist refuses it.
    Rejected,
    /// It did not finish in time and was killed.
    Timeout,
    /// Four commands are running already.
    Busy,
    /// The program could not be started.
    SpawnFailed,
    /// It was cancelled.
    Cancelled,
}

impl CommandOutcome {
    /// A failure with its words.
    #[must_use]
    pub fn failed(code: FailureCode, error: impl Into<String>) -> Self {
        Self::Failed { code, error: error.into(), exit_code: -1 }
    }
}

/// Why a frame was not understood. The text is what the peer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Over [`MAX_FRAME_BYTES`].
    #[error("message too large")]
    TooLarge,
    /// Not JSON, or fields are missing or of the wrong type.
    #[error("malformed message")]
    Malformed,
    /// A `type` that this end does not know.
    #[error("unknown message type")]
    UnknownType,
}

/// Reads a frame that an agent sent.
///
/// # Errors
/// [`FrameError`]; the link stays usable.
pub fn parse_agent_frame(text: &str) -> Result<AgentFrame, FrameError> {
    parse(text, &["auth", "register", "ping", "tool_result", "error"])
}

/// Reads a frame that the control plane sent.
///
/// # Errors
/// [`FrameError`]; the link stays usable.
pub fn parse_server_frame(text: &str) -> Result<ServerFrame, FrameError> {
    parse(text, &["challenge", "registered", "pong", "tool_call", "cancel", "error", "goodbye"])
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, known: &[&str]) -> Result<T, FrameError> {
    if text.len() > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge);
    }
    let value = crate::json::parse(text.as_bytes()).map_err(|_| FrameError::Malformed)?;
    let kind = value.get("type").and_then(serde_json::Value::as_str).ok_or(FrameError::Malformed)?;
    if !known.contains(&kind) {
        return Err(FrameError::UnknownType);
    }
    T::deserialize(value).map_err(|_| FrameError::Malformed)
}

impl ServerFrame {
    /// The frame as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("frames are plain data and always have a JSON form")
    }
}

impl AgentFrame {
    /// The frame as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("frames are plain data and always have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;
    use uuid::Uuid;

    use super::*;

    fn call() -> CorrelationId {
        CorrelationId::from_ulid(Ulid(1))
    }

    // proves: S-12, H-10, H-16
    #[test]
    fn the_protocol_is_as_committed() {
        let target_id = TargetId::from_uuid(Uuid::from_u128(1));
        let server = [
            ServerFrame::Challenge { protocol: 1, nonce: "n".into(), session: "s".into() },
            ServerFrame::Registered { target_id, heartbeat_sec: 30 },
            ServerFrame::Pong,
            ServerFrame::ToolCall { call_id: call(), command: "uptime".into(), timeout_ms: 9500 },
            ServerFrame::Cancel { call_id: call() },
            ServerFrame::Error { error: FrameError::UnknownType.to_string() },
            ServerFrame::Goodbye { reconnect_after_ms: 1000 },
        ];
        let ran = RanCommand { stdout: "o".into(), stderr: String::new(), exit_code: 3, truncated: false };
        let agent = [
            AgentFrame::Auth {
                protocol: 1,
                agent_id: AgentId::from_uuid(Uuid::from_u128(2)),
                signature: "00".into(),
            },
            AgentFrame::Register(HostFacts { ip: Some("192.0.2.1".into()), ..HostFacts::default() }),
            AgentFrame::Ping,
            AgentFrame::ToolResult { call_id: call(), outcome: CommandOutcome::Ran(ran) },
            AgentFrame::ToolResult {
                call_id: call(),
                outcome: CommandOutcome::failed(FailureCode::SpawnFailed, "no such program"),
            },
            AgentFrame::Error { error: FrameError::Malformed.to_string() },
        ];
        for frame in &server {
            assert_eq!(parse_server_frame(&frame.to_text()).as_ref(), Ok(frame));
        }
        for frame in &agent {
            assert_eq!(parse_agent_frame(&frame.to_text()).as_ref(), Ok(frame));
        }
        let text: Vec<_> =
            server.iter().map(ServerFrame::to_text).chain(agent.iter().map(AgentFrame::to_text)).collect();
        insta::assert_snapshot!("protocol", text.join("\n"));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(parse_agent_frame(r#"{"type":"exec","command":"id"}"#), Err(FrameError::UnknownType));
        assert_eq!(parse_agent_frame(r#"{"type":"auth"}"#), Err(FrameError::Malformed));
        assert_eq!(parse_agent_frame(r#"{"type":"ping","type":"ping"}"#), Err(FrameError::Malformed));
        assert_eq!(parse_agent_frame("ping"), Err(FrameError::Malformed));
        assert_eq!(parse_agent_frame(&" ".repeat(MAX_FRAME_BYTES + 1)), Err(FrameError::TooLarge));
        assert_eq!(parse_agent_frame(r#"{"type":"ping","later":1}"#), Ok(AgentFrame::Ping));
    }
}
