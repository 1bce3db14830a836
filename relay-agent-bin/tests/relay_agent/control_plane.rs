//! A control plane of one agent: the real state machine, a real WebSocket, a real signature check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use mcp_core::agent::{AgentRecord, Registration};
use mcp_core::id::{AgentId, CorrelationId, TargetId, TenantId};
use mcp_core::relay::{CommandOutcome, HostFacts, ServerAction, ServerFrame, ServerLink};
use mcp_core::secret::SecretValue;
use relay_agent::enroll::{EnrollError, EnrollRequest, Enrolled, enroll};
use relay_agent::run::{AgentConfig, Reconnect};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};
use ulid::Ulid;
use uuid::Uuid;

pub(crate) const AGENT: AgentId = AgentId::from_uuid(Uuid::from_u128(2));
pub(crate) const TARGET: TargetId = TargetId::from_uuid(Uuid::from_u128(3));

/// Nothing here takes long; what does will never end.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct ControlPlane {
    listener: TcpListener,
    dir: TempDir,
    pub(crate) record: AgentRecord,
}

/// A link that an agent has opened.
pub(crate) struct Link {
    socket: WebSocketStream<TcpStream>,
    machine: ServerLink,
    calls: u128,
    pub(crate) facts: Option<HostFacts>,
    closed_with: Option<u16>,
}

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens soon")
}

impl ControlPlane {
    pub(crate) async fn start() -> Self {
        let tenant = TenantId::from_uuid(Uuid::from_u128(1));
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            dir: tempfile::tempdir().unwrap(),
            record: AgentRecord { tenant, agent: AGENT, target: TARGET, public_key: [0; 32], revoked: false },
        }
    }

    /// One that has enrolled an agent.
    pub(crate) async fn with_agent() -> Self {
        let mut control_plane = Self::start().await;
        control_plane.enroll("201 Created", &json!({"agentId": AGENT, "targetId": TARGET})).await.0.unwrap();
        control_plane
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Lets an agent enrol and answers it like this. Also gives the request's JSON.
    pub(crate) async fn enroll(
        &mut self,
        status: &str,
        answer: &Value,
    ) -> (Result<Enrolled, EnrollError>, Value) {
        let token = SecretValue::new("t0ken".to_owned());
        let request = EnrollRequest::new(self.url().parse().unwrap(), token, self.state_dir());
        let answer = answer.to_string();
        let (result, (head, body)) =
            soon(async { tokio::join!(enroll(request), self.answer_http(status, &answer)) }).await;
        assert!(head.starts_with("POST /api/relay/enroll HTTP/1.1\r\n"), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        self.record.public_key = public_key(&body);
        (result, body)
    }

    /// Takes one HTTP request, answers it and gives its head and body.
    pub(crate) async fn answer_http(&self, status: &str, answer: &str) -> (String, String) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                });
                if body.len() >= length.unwrap_or(0) {
                    let length = answer.len();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{answer}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    return (head.to_owned(), body.to_owned());
                }
            }
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request broke off");
        }
    }

    /// Settings for an agent that comes back at once.
    pub(crate) fn config(&self) -> AgentConfig {
        let mut config = AgentConfig::new(self.state_dir());
        let short = Duration::from_millis(5);
        config.reconnect = Reconnect { base: short, cap: 2 * short, refused: 2 * short };
        config
    }

    /// Takes a connection and throws it away.
    pub(crate) async fn drop_one(&self) {
        drop(soon(self.listener.accept()).await.unwrap());
    }

    /// Takes a connection and opens a link on it, up to the challenge.
    pub(crate) async fn accept(&self) -> Link {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let host = self.listener.local_addr().unwrap().to_string();
        let nonce = Ulid::generate().to_string();
        let (machine, opening) = ServerLink::open(nonce, "session".to_owned(), host);
        let mut link = Link { socket, machine, calls: 0, facts: None, closed_with: None };
        link.perform(opening, &self.record).await;
        link
    }

    /// Takes a connection and registers the agent.
    pub(crate) async fn accept_live(&self) -> Link {
        let mut link = self.accept().await;
        while !link.machine.is_live() {
            assert!(link.step(&self.record).await.is_none(), "nothing was asked yet");
        }
        link
    }
}

impl Link {
    /// Runs a command on the agent, whatever its text is.
    pub(crate) async fn call(&mut self, control_plane: &ControlPlane, command: &str) -> CommandOutcome {
        self.calls += 1;
        let call = CorrelationId::from_ulid(Ulid(self.calls));
        let actions = self.machine.call(call, command.to_owned());
        self.perform(actions, &control_plane.record).await;
        soon(async {
            loop {
                if let Some((id, outcome)) = self.step(&control_plane.record).await {
                    assert_eq!(id, call);
                    return outcome;
                }
            }
        })
        .await
    }

    /// Takes the proof of an agent that must be refused, and refuses it.
    pub(crate) async fn refuse(&mut self, control_plane: &ControlPlane) {
        self.step(&control_plane.record).await;
    }

    /// Takes what the agent says until it is time to close the link, and gives the code of that.
    pub(crate) async fn closed_by_us(&mut self, control_plane: &ControlPlane) -> Option<u16> {
        while self.closed_with.is_none() {
            self.step(&control_plane.record).await;
        }
        self.closed_with
    }

    pub(crate) async fn goodbye(&mut self, reconnect_after_ms: u64) {
        let text = ServerFrame::Goodbye { reconnect_after_ms }.to_text();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The code with which the agent closes; `None` when it just went away.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        soon(async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        })
        .await
    }

    /// Takes one message from the agent.
    async fn step(&mut self, record: &AgentRecord) -> Option<(CorrelationId, CommandOutcome)> {
        let message = soon(self.socket.next()).await.expect("the link is open").unwrap();
        let actions = self.machine.on_frame(message.to_text().unwrap());
        self.perform(actions, record).await
    }

    async fn perform(
        &mut self,
        actions: Vec<ServerAction>,
        record: &AgentRecord,
    ) -> Option<(CorrelationId, CommandOutcome)> {
        let mut outcome = None;
        let mut actions = std::collections::VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                ServerAction::Send(frame) => {
                    self.socket.send(Message::text(frame.to_text())).await.unwrap();
                }
                ServerAction::FindAgent(agent) => {
                    let found = Some(record.clone()).filter(|record| record.agent == agent);
                    actions.extend(self.machine.on_agent(found, |key, message, signature| {
                        UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
                    }));
                }
                ServerAction::Register { facts, .. } => {
                    self.facts = Some(facts);
                    let registration = Registration { target: record.target, epoch: 1 };
                    actions.extend(self.machine.on_registered(Some(registration)));
                }
                ServerAction::Deliver { call, outcome: delivered } => outcome = Some((call, delivered)),
                ServerAction::Close { code, reason } => {
                    self.closed_with = Some(code);
                    let frame = CloseFrame { code: code.into(), reason: reason.into() };
                    self.socket.close(Some(frame)).await.unwrap();
                }
                ServerAction::Live(_)
                | ServerAction::Seen
                | ServerAction::Dropped
                | ServerAction::AuthFailed { .. } => {}
            }
        }
        outcome
    }
}

fn public_key(body: &Value) -> [u8; 32] {
    let hex = body["publicKey"].as_str().unwrap();
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    bytes.try_into().unwrap()
}
