//! The relay protocol: what a control plane and an agent say to each other, as two pure state machines (SPEC §9).
//!
//! Both ends run `on_frame → actions`; sockets, clocks, keys and processes stay with whoever drives them. Each end
//! treats the other as hostile: sizes are bounded, unknown frames are answered with an error, results of calls that were
//! not asked for are dropped, and a permit never crosses the wire (the agent decides again).
//!
//! ```text
//! control plane                         agent
//!   challenge {protocol,nonce,session} →
//!                                    ← auth {protocol,agentId,signature}
//!                                    ← register {hostname,os,ip,version}
//!   registered {targetId,heartbeatSec} →
//!                                    ← ping … every 30 s
//!   pong                             →
//!   tool_call {callId,command,timeoutMs} →
//!                                    ← tool_result {callId,…}
//!   cancel {callId}                  →
//! ```

mod agent;
mod frame;
mod server;

use std::time::Duration;

pub use self::agent::{AgentAction, AgentLink};
pub use self::frame::{
    AgentFrame, CommandOutcome, FailureCode, FrameError, HostFacts, RanCommand, ServerFrame,
    parse_agent_frame, parse_server_frame,
};
pub use self::server::{ServerAction, ServerLink};

use crate::id::AgentId;

/// The version that `challenge` and `auth` carry. An end that hears another one closes the link.
pub const PROTOCOL_VERSION: u32 = 1;
/// Largest frame and largest message, bytes. They are the same because messages are never fragmented.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;
/// Frames that may wait to be sent to one agent.
pub const SEND_QUEUE_FRAMES: usize = 32;
/// How often an agent pings.
pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// Silence after which either end gives the link up.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(45);
/// Time for an agent to authenticate and register after the socket opened.
pub const REGISTER_DEADLINE: Duration = Duration::from_secs(5);
/// What the control plane allows a command, milliseconds; half a second less than its own deadline.
pub const COMMAND_TIMEOUT_MS: u64 = 9_500;
/// Commands that an agent runs at once.
pub const MAX_COMMANDS: usize = 4;
/// Most bytes of standard output that an agent sends.
pub const MAX_STDOUT_BYTES: usize = 128 * 1024;
/// Most bytes of standard error that an agent sends.
pub const MAX_STDERR_BYTES: usize = 16 * 1024;

/// Codes with which the control plane closes a link.
pub mod close {
    /// The agent did not prove its key, or was revoked.
    pub const UNAUTHORIZED: u16 = 4401;
    /// The agent did not authenticate or answer in time.
    pub const TIMEOUT: u16 = 4408;
    /// A newer link of the same agent took over.
    pub const SUPERSEDED: u16 = 4409;
    /// The peer speaks another version of the protocol, or out of turn.
    pub const PROTOCOL: u16 = 4400;
    /// The agent does not read what it is sent.
    pub const TOO_SLOW: u16 = 4429;
    /// The control plane is going down; come back.
    pub const GOING_AWAY: u16 = 1001;
}

/// The bytes that an agent signs to prove its key.
///
/// They bind the server's nonce to the agent, to the session and to the host that the agent believes it is talking to,
/// so a signature obtained by one server is worthless at another. `server_host` is the authority (`host:port`, the port
/// left out when it is the scheme's default) of the control plane's public URL. Every part is length-prefixed.
#[must_use]
pub fn auth_message(nonce: &str, agent: AgentId, server_host: &str, session: &str) -> Vec<u8> {
    let mut message = b"coreci/relay-auth/v1\0".to_vec();
    for part in [nonce.as_bytes(), agent.as_uuid().as_bytes(), server_host.as_bytes(), session.as_bytes()] {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part);
    }
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn distinct_parts_are_distinct_messages(a in "[a-c]{0,3}", b in "[a-c]{0,3}", c in "[a-c]{0,3}", d in "[a-c]{0,3}") {
            let agent = AgentId::from_uuid(Uuid::from_u128(1));
            let same = (a == c) && (b == d);
            prop_assert_eq!(auth_message(&a, agent, "h", &b) == auth_message(&c, agent, "h", &d), same);
            prop_assert_eq!(auth_message(&a, agent, &b, "s") == auth_message(&c, agent, &d, "s"), same);
        }
    }
}
