//! The agent's end of the link.

use std::collections::{BTreeSet, VecDeque};

use super::{
    AgentFrame, CommandOutcome, FailureCode, HostFacts, MAX_COMMANDS, PROTOCOL_VERSION, ServerFrame,
    auth_message, parse_server_frame,
};
use crate::id::{AgentId, CorrelationId, TargetId};

/// Call ids that are remembered, so that a call delivered twice runs once.
const REMEMBERED_CALLS: usize = 1024;

/// What the driver of an [`AgentLink`] must do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAction {
    /// Send a frame.
    Send(AgentFrame),
    /// Sign these bytes with the agent's key and call [`AgentLink::on_signed`].
    Sign(Vec<u8>),
    /// The link is live.
    Registered {
        /// The target that this agent stands for.
        target: TargetId,
    },
    /// Check and run a command, then call [`AgentLink::on_finished`].
    Run {
        /// The call.
        call: CorrelationId,
        /// The text to check: nothing the control plane says is trusted to be one of the six commands.
        command: String,
        /// The control plane's limit, milliseconds.
        timeout_ms: u64,
    },
    /// Kill a command; its outcome must not be reported any more.
    Abort {
        /// The call.
        call: CorrelationId,
    },
    /// Close the link and come back after at least this time.
    Leave {
        /// Milliseconds.
        reconnect_after_ms: u64,
    },
    /// Close the link: the peer does not speak this protocol.
    Close {
        /// For the log.
        reason: &'static str,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    AwaitChallenge,
    Signing,
    AwaitRegistered,
    Live,
    Closed,
}

/// The state machine of one connection to a control plane.
#[derive(Debug)]
pub struct AgentLink {
    state: State,
    agent: AgentId,
    server_host: String,
    facts: HostFacts,
    running: BTreeSet<CorrelationId>,
    seen: VecDeque<CorrelationId>,
}

impl AgentLink {
    /// A link for a socket that has just opened to `server_host` (the authority of the configured URL).
    #[must_use]
    pub fn new(agent: AgentId, server_host: String, facts: HostFacts) -> Self {
        Self {
            state: State::AwaitChallenge,
            agent,
            server_host,
            facts,
            running: BTreeSet::new(),
            seen: VecDeque::new(),
        }
    }

    /// Takes one text message from the control plane.
    pub fn on_frame(&mut self, text: &str) -> Vec<AgentAction> {
        let frame = match parse_server_frame(text) {
            Ok(frame) => frame,
            Err(error) if self.state == State::Live => {
                return vec![AgentAction::Send(AgentFrame::Error { error: error.to_string() })];
            }
            Err(_) => return self.close("the peer does not speak the relay protocol"),
        };
        match (&self.state, frame) {
            (State::Closed, _) => Vec::new(),
            (State::AwaitChallenge, ServerFrame::Challenge { protocol, nonce, session }) => {
                if protocol != PROTOCOL_VERSION {
                    return self.close("the control plane speaks another protocol version");
                }
                self.state = State::Signing;
                vec![AgentAction::Sign(auth_message(&nonce, self.agent, &self.server_host, &session))]
            }
            (State::AwaitRegistered, ServerFrame::Registered { target_id, .. }) => {
                self.state = State::Live;
                vec![AgentAction::Registered { target: target_id }]
            }
            (State::Live, ServerFrame::ToolCall { call_id, command, timeout_ms }) => {
                self.on_call(call_id, command, timeout_ms)
            }
            (State::Live, ServerFrame::Cancel { call_id }) => {
                if self.running.remove(&call_id) {
                    vec![AgentAction::Abort { call: call_id }]
                } else {
                    Vec::new()
                }
            }
            (State::Live, ServerFrame::Pong | ServerFrame::Error { .. }) => Vec::new(),
            (_, ServerFrame::Goodbye { reconnect_after_ms }) => {
                self.state = State::Closed;
                vec![AgentAction::Leave { reconnect_after_ms }]
            }
            (_, _) => self.close("a message out of turn"),
        }
    }

    /// Takes the signature that [`AgentAction::Sign`] asked for.
    pub fn on_signed(&mut self, signature: &[u8]) -> Vec<AgentAction> {
        if self.state != State::Signing {
            return self.close("a signature out of turn");
        }
        self.state = State::AwaitRegistered;
        let signature = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        vec![
            AgentAction::Send(AgentFrame::Auth {
                protocol: PROTOCOL_VERSION,
                agent_id: self.agent,
                signature,
            }),
            AgentAction::Send(AgentFrame::Register(self.facts.clone())),
        ]
    }

    /// Takes the outcome of a command. That of an aborted one is dropped.
    pub fn on_finished(&mut self, call: CorrelationId, outcome: CommandOutcome) -> Vec<AgentAction> {
        if self.running.remove(&call) {
            vec![AgentAction::Send(AgentFrame::ToolResult { call_id: call, outcome })]
        } else {
            Vec::new()
        }
    }

    /// Whether the control plane has registered this agent.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state == State::Live
    }

    fn on_call(&mut self, call: CorrelationId, command: String, timeout_ms: u64) -> Vec<AgentAction> {
        if self.seen.contains(&call) {
            return vec![AgentAction::Send(AgentFrame::Error { error: format!("duplicate callId {call}") })];
        }
        if self.seen.len() == REMEMBERED_CALLS {
            self.seen.pop_front();
        }
        self.seen.push_back(call);
        if self.running.len() == MAX_COMMANDS {
            let outcome = CommandOutcome::failed(FailureCode::Busy, "four commands are running already");
            return vec![AgentAction::Send(AgentFrame::ToolResult { call_id: call, outcome })];
        }
        self.running.insert(call);
        vec![AgentAction::Run { call, command, timeout_ms }]
    }

    fn close(&mut self, reason: &'static str) -> Vec<AgentAction> {
        self.state = State::Closed;
        vec![AgentAction::Close { reason }]
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;
    use uuid::Uuid;

    use super::*;

    fn challenge() -> String {
        ServerFrame::Challenge { protocol: 1, nonce: "n".into(), session: "s".into() }.to_text()
    }

    fn live() -> AgentLink {
        let agent = AgentId::from_uuid(Uuid::from_u128(2));
        let mut link = AgentLink::new(agent, "cp.example".into(), HostFacts::default());
        assert_eq!(
            link.on_frame(&challenge()),
            [AgentAction::Sign(auth_message("n", agent, "cp.example", "s"))]
        );
        link.on_signed(&[1, 2]);
        let target_id = TargetId::from_uuid(Uuid::from_u128(3));
        link.on_frame(&ServerFrame::Registered { target_id, heartbeat_sec: 30 }.to_text());
        assert!(link.is_live());
        link
    }

    fn call(n: u128) -> CorrelationId {
        CorrelationId::from_ulid(Ulid(n))
    }

    fn tool_call(n: u128) -> String {
        ServerFrame::ToolCall { call_id: call(n), command: "uptime".into(), timeout_ms: 9500 }.to_text()
    }

    // proves: C-M17
    #[test]
    fn a_call_delivered_twice_runs_once() {
        let mut link = live();
        assert!(matches!(link.on_frame(&tool_call(1))[..], [AgentAction::Run { .. }]));
        assert!(matches!(link.on_frame(&tool_call(1))[..], [AgentAction::Send(AgentFrame::Error { .. })]));
        link.on_finished(call(1), CommandOutcome::failed(FailureCode::Timeout, ""));
        assert!(matches!(link.on_frame(&tool_call(1))[..], [AgentAction::Send(AgentFrame::Error { .. })]));
    }

    #[test]
    fn the_fifth_command_at_once_is_told_busy() {
        let mut link = live();
        for n in 0..4 {
            assert!(matches!(link.on_frame(&tool_call(n))[..], [AgentAction::Run { .. }]));
        }
        let AgentAction::Send(AgentFrame::ToolResult { outcome, .. }) = &link.on_frame(&tool_call(4))[0]
        else {
            panic!("no answer");
        };
        assert!(matches!(outcome, CommandOutcome::Failed { code: FailureCode::Busy, exit_code: -1, .. }));
        link.on_finished(call(0), CommandOutcome::failed(FailureCode::Timeout, ""));
        assert!(matches!(link.on_frame(&tool_call(5))[..], [AgentAction::Run { .. }]));
    }

    #[test]
    fn an_aborted_command_reports_nothing() {
        let mut link = live();
        link.on_frame(&tool_call(1));
        let cancel = ServerFrame::Cancel { call_id: call(1) }.to_text();
        assert_eq!(link.on_frame(&cancel), [AgentAction::Abort { call: call(1) }]);
        assert_eq!(link.on_finished(call(1), CommandOutcome::failed(FailureCode::Cancelled, "")), []);
        assert_eq!(link.on_frame(&cancel), []);
    }

    #[test]
    fn no_command_runs_before_registration() {
        let mut link = AgentLink::new(AgentId::from_uuid(Uuid::nil()), "h".into(), HostFacts::default());
        assert!(matches!(link.on_frame(&tool_call(1))[..], [AgentAction::Close { .. }]));
        assert_eq!(link.on_frame(&challenge()), []);
    }
}
