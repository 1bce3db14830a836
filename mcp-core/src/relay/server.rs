//! The control plane's end of one link.

use std::collections::BTreeSet;

use super::{
    AgentFrame, COMMAND_TIMEOUT_MS, CommandOutcome, FrameError, HEARTBEAT, HostFacts, PROTOCOL_VERSION,
    ServerFrame, auth_message, close, parse_agent_frame,
};
use crate::agent::{AgentRecord, Registration};
use crate::id::{AgentId, CorrelationId};

/// What the driver of a [`ServerLink`] must do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Send a frame.
    Send(ServerFrame),
    /// Look the agent up and call [`ServerLink::on_agent`].
    FindAgent(AgentId),
    /// Record the registration and call [`ServerLink::on_registered`].
    Register {
        /// The proven agent.
        agent: AgentRecord,
        /// What it says of its host.
        facts: HostFacts,
    },
    /// The link is live: make it the agent's newest.
    Live(Registration),
    /// The agent was heard from.
    Seen,
    /// Hand an outcome to whoever waits for the call.
    Deliver {
        /// The call.
        call: CorrelationId,
        /// What came of it.
        outcome: CommandOutcome,
    },
    /// A frame was dropped (late or foreign result). Count it.
    Dropped,
    /// The peer did not prove who it is. Write it down.
    AuthFailed {
        /// Who it claimed to be, if it got that far.
        claimed: Option<AgentRecord>,
        /// Why.
        reason: &'static str,
    },
    /// Close the socket with this code.
    Close {
        /// One of [`close`].
        code: u16,
        /// For the peer's log.
        reason: &'static str,
    },
}

#[derive(Debug)]
enum State {
    AwaitAuth,
    Finding { signature: Vec<u8> },
    AwaitRegister { agent: AgentRecord },
    Registering,
    Live { in_flight: BTreeSet<CorrelationId> },
    Closed,
}

/// The state machine of one accepted socket: challenge, proof, registration, then calls.
#[derive(Debug)]
pub struct ServerLink {
    state: State,
    nonce: String,
    session: String,
    server_host: String,
}

impl ServerLink {
    /// A link for a socket that has just opened. `nonce` must be fresh and unpredictable; `server_host` is the authority
    /// of the public URL.
    #[must_use]
    pub fn open(nonce: String, session: String, server_host: String) -> (Self, Vec<ServerAction>) {
        let challenge = ServerFrame::Challenge {
            protocol: PROTOCOL_VERSION,
            nonce: nonce.clone(),
            session: session.clone(),
        };
        (Self { state: State::AwaitAuth, nonce, session, server_host }, vec![ServerAction::Send(challenge)])
    }

    /// Takes one text message from the agent.
    pub fn on_frame(&mut self, text: &str) -> Vec<ServerAction> {
        let frame = match parse_agent_frame(text) {
            Ok(frame) => frame,
            // A stranger gets no conversation, and nobody gets to send more than a frame may hold.
            Err(FrameError::TooLarge) => return self.close(close::PROTOCOL, "message too large"),
            Err(error) if self.is_live() => {
                return vec![ServerAction::Send(ServerFrame::Error { error: error.to_string() })];
            }
            Err(_) => return self.close(close::PROTOCOL, "authenticate and register first"),
        };
        match (&mut self.state, frame) {
            (State::Closed, _) => Vec::new(),
            (State::AwaitAuth, AgentFrame::Auth { protocol, agent_id, signature }) => {
                if protocol != PROTOCOL_VERSION {
                    return self.close(close::PROTOCOL, "unsupported protocol version; upgrade the agent");
                }
                let Some(signature) = decode_hex(&signature) else {
                    return self.refuse(None, "malformed signature");
                };
                self.state = State::Finding { signature };
                vec![ServerAction::FindAgent(agent_id)]
            }
            (State::AwaitRegister { agent }, AgentFrame::Register(facts)) => {
                let action = ServerAction::Register { agent: agent.clone(), facts: facts.bounded() };
                self.state = State::Registering;
                vec![action]
            }
            (State::Live { .. }, AgentFrame::Ping) => {
                vec![ServerAction::Seen, ServerAction::Send(ServerFrame::Pong)]
            }
            (State::Live { in_flight }, AgentFrame::ToolResult { call_id, outcome }) => {
                if in_flight.remove(&call_id) {
                    vec![ServerAction::Deliver { call: call_id, outcome }]
                } else {
                    vec![ServerAction::Dropped]
                }
            }
            (State::Live { .. }, AgentFrame::Error { .. }) => vec![ServerAction::Dropped],
            (_, _) => self.close(close::PROTOCOL, "message out of turn"),
        }
    }

    /// Takes what the registry knows of the agent that wants in. `verify(key, message, signature)` is Ed25519.
    pub fn on_agent(
        &mut self,
        found: Option<AgentRecord>,
        verify: impl FnOnce(&[u8; 32], &[u8], &[u8]) -> bool,
    ) -> Vec<ServerAction> {
        let State::Finding { signature } = std::mem::replace(&mut self.state, State::Closed) else {
            return self.close(close::PROTOCOL, "message out of turn");
        };
        let Some(agent) = found else {
            return self.refuse(None, "unknown agent");
        };
        let message = auth_message(&self.nonce, agent.agent, &self.server_host, &self.session);
        // The signature is checked before the revocation, so that only the key's owner learns that it was revoked.
        if !verify(&agent.public_key, &message, &signature) {
            return self.refuse(Some(agent), "signature does not match");
        }
        if agent.revoked {
            return self.refuse(Some(agent), "revoked");
        }
        self.state = State::AwaitRegister { agent };
        Vec::new()
    }

    /// Takes the outcome of the registration; `None` when the agent was revoked meanwhile.
    pub fn on_registered(&mut self, registration: Option<Registration>) -> Vec<ServerAction> {
        if !matches!(self.state, State::Registering) {
            return self.close(close::PROTOCOL, "message out of turn");
        }
        let Some(registration) = registration else {
            return self.refuse(None, "revoked");
        };
        self.state = State::Live { in_flight: BTreeSet::new() };
        let registered =
            ServerFrame::Registered { target_id: registration.target, heartbeat_sec: HEARTBEAT.as_secs() };
        vec![ServerAction::Live(registration), ServerAction::Send(registered)]
    }

    /// Sends a command. Nothing happens on a link that is not live: the caller finds no link then.
    pub fn call(&mut self, call: CorrelationId, command: String) -> Vec<ServerAction> {
        let State::Live { in_flight } = &mut self.state else { return Vec::new() };
        in_flight.insert(call);
        let frame = ServerFrame::ToolCall { call_id: call, command, timeout_ms: COMMAND_TIMEOUT_MS };
        vec![ServerAction::Send(frame)]
    }

    /// Stops a command; a result that still arrives is late.
    pub fn cancel(&mut self, call: CorrelationId) -> Vec<ServerAction> {
        let State::Live { in_flight } = &mut self.state else { return Vec::new() };
        if in_flight.remove(&call) {
            vec![ServerAction::Send(ServerFrame::Cancel { call_id: call })]
        } else {
            Vec::new()
        }
    }

    /// Whether the agent is registered.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    fn refuse(&mut self, claimed: Option<AgentRecord>, reason: &'static str) -> Vec<ServerAction> {
        // Only the owner of a revoked key is told more than "no".
        let told = if reason == "revoked" { "revoked" } else { "unauthorized" };
        let mut actions = vec![ServerAction::AuthFailed { claimed, reason }];
        actions.extend(self.close(close::UNAUTHORIZED, told));
        actions
    }

    fn close(&mut self, code: u16, reason: &'static str) -> Vec<ServerAction> {
        self.state = State::Closed;
        vec![ServerAction::Close { code, reason }]
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || text.len() > 128 || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use ulid::Ulid;
    use uuid::Uuid;

    use super::super::FailureCode;
    use super::*;
    use crate::id::{TargetId, TenantId};

    fn record(revoked: bool) -> AgentRecord {
        AgentRecord {
            tenant: TenantId::from_uuid(Uuid::from_u128(1)),
            agent: AgentId::from_uuid(Uuid::from_u128(2)),
            target: TargetId::from_uuid(Uuid::from_u128(3)),
            public_key: [7; 32],
            revoked,
        }
    }

    fn opened() -> ServerLink {
        ServerLink::open("nonce".into(), "session".into(), "cp.example".into()).0
    }

    fn auth() -> String {
        AgentFrame::Auth { protocol: 1, agent_id: record(false).agent, signature: "ab".into() }.to_text()
    }

    fn live() -> ServerLink {
        let mut link = opened();
        link.on_frame(&auth());
        link.on_agent(Some(record(false)), |_, _, _| true);
        link.on_frame(&AgentFrame::Register(HostFacts::default()).to_text());
        let registration = Registration { target: record(false).target, epoch: 1 };
        link.on_registered(Some(registration));
        assert!(link.is_live());
        link
    }

    fn closed_with(actions: &[ServerAction]) -> Option<u16> {
        actions.iter().find_map(|action| match action {
            ServerAction::Close { code, .. } => Some(*code),
            _ => None,
        })
    }

    fn call() -> CorrelationId {
        CorrelationId::from_ulid(Ulid(9))
    }

    // proves: RT-08, C-M03
    #[test]
    fn only_a_signature_over_this_nonce_host_and_session_opens_the_link() {
        let mut link = opened();
        assert_eq!(link.on_frame(&auth()), [ServerAction::FindAgent(record(false).agent)]);
        let mut seen = Vec::new();
        let actions = link.on_agent(Some(record(false)), |key, message, signature| {
            seen = message.to_vec();
            *key == [7; 32] && signature == [0xab]
        });
        assert_eq!(actions, []);
        assert_eq!(seen, auth_message("nonce", record(false).agent, "cp.example", "session"));
    }

    #[test]
    fn strangers_forgers_and_revoked_agents_are_closed_4401() {
        for (found, verifies) in [(None, true), (Some(record(false)), false), (Some(record(true)), true)] {
            let mut link = opened();
            link.on_frame(&auth());
            let actions = link.on_agent(found, |_, _, _| verifies);
            assert_eq!(closed_with(&actions), Some(close::UNAUTHORIZED));
            assert!(matches!(actions[0], ServerAction::AuthFailed { .. }));
            assert_eq!(link.on_frame(&auth()), [], "a closed link stays closed");
        }
    }

    #[test]
    fn nothing_is_heard_before_registration() {
        let result = AgentFrame::ToolResult {
            call_id: call(),
            outcome: CommandOutcome::failed(FailureCode::Busy, ""),
        };
        for frame in [AgentFrame::Ping, AgentFrame::Register(HostFacts::default()), result] {
            assert_eq!(closed_with(&opened().on_frame(&frame.to_text())), Some(close::PROTOCOL));
        }
        assert_eq!(closed_with(&opened().on_frame("{}")), Some(close::PROTOCOL));
        let other =
            json!({"type": "auth", "protocol": 2, "agentId": Uuid::nil(), "signature": ""}).to_string();
        assert_eq!(closed_with(&opened().on_frame(&other)), Some(close::PROTOCOL));
    }

    // proves: H-16
    #[test]
    fn a_live_link_answers_pings_and_unknown_types() {
        let mut link = live();
        assert_eq!(
            link.on_frame(&AgentFrame::Ping.to_text()),
            [ServerAction::Seen, ServerAction::Send(ServerFrame::Pong)]
        );
        let error = ServerFrame::Error { error: "unknown message type".into() };
        assert_eq!(link.on_frame(r#"{"type":"surprise"}"#), [ServerAction::Send(error)]);
    }

    // proves: H-11
    #[test]
    fn late_foreign_and_repeated_results_are_dropped() {
        let mut link = live();
        let outcome = CommandOutcome::failed(FailureCode::Timeout, "");
        let result = AgentFrame::ToolResult { call_id: call(), outcome }.to_text();

        assert_eq!(link.on_frame(&result), [ServerAction::Dropped], "never asked for");
        link.call(call(), "uptime".into());
        assert!(matches!(link.on_frame(&result)[..], [ServerAction::Deliver { .. }]));
        assert_eq!(link.on_frame(&result), [ServerAction::Dropped], "delivered already");
        link.call(call(), "uptime".into());
        assert_eq!(link.cancel(call()), [ServerAction::Send(ServerFrame::Cancel { call_id: call() })]);
        assert_eq!(link.on_frame(&result), [ServerAction::Dropped], "cancelled");
        assert_eq!(link.cancel(call()), []);
    }
}
