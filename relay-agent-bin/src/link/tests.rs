//! Links over a pipe in memory, against the real state machine of the control plane and real signatures.
//!
//! The clock of some tests is paused: it then jumps to the next timer whenever nobody has anything to do.

use mcp_core::agent::{AgentRecord, Registration};
use mcp_core::id::{AgentId, TenantId};
use mcp_core::relay::{ServerAction, ServerFrame, ServerLink};
use ring::signature::{ED25519, UnparsedPublicKey};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::Role;
use ulid::Ulid;
use uuid::Uuid;

use super::*;
use crate::executor::tests::hanging_executor;
use crate::identity::PendingKey;
use crate::trust::Trust;

const AGENT: AgentId = AgentId::from_uuid(Uuid::from_u128(2));
const TARGET: TargetId = TargetId::from_uuid(Uuid::from_u128(3));
const HOST: &str = "cp.example";

/// The control plane's end of a link.
struct ControlPlane {
    socket: WebSocketStream<DuplexStream>,
    machine: ServerLink,
    record: AgentRecord,
}

/// A link that has just been opened.
struct Dialled {
    control_plane: ControlPlane,
    executor: Arc<Executor>,
    link: JoinHandle<LinkEnd>,
}

async fn dialled(executor: Executor, policy: LocalPolicy, host: &str) -> Dialled {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let key = PendingKey::generate(&state).unwrap();
    let public_key = key.public_key().try_into().unwrap();
    key.keep(AGENT, TARGET, &format!("https://{HOST}").parse().unwrap(), &Trust::System).unwrap();
    let executor = Arc::new(executor);
    let agent = Agent {
        identity: Identity::load(&state).unwrap(),
        facts: HostFacts::default(),
        policy,
        executor: Arc::clone(&executor),
    };
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let link = tokio::spawn(async move {
        let mut socket = WebSocketStream::from_raw_socket(theirs, Role::Client, Some(limits())).await;
        let end = drive(&agent, &mut socket, |_| {}).await;
        let farewell = CloseFrame { code: end.close_code(), reason: "".into() };
        let _ = timeout(CLOSE_TIMEOUT, socket.close(Some(farewell))).await;
        end
    });
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    let record = AgentRecord { tenant, agent: AGENT, target: TARGET, public_key, revoked: false };
    let socket = WebSocketStream::from_raw_socket(ours, Role::Server, None).await;
    let (machine, opening) = ServerLink::open("nonce".into(), "session".into(), host.into());
    let mut control_plane = ControlPlane { socket, machine, record };
    control_plane.perform(opening).await;
    Dialled { control_plane, executor, link }
}

async fn live(executor: Executor) -> Dialled {
    let mut dialled = dialled(executor, LocalPolicy::all_six(), HOST).await;
    dialled.control_plane.register().await;
    dialled
}

fn call(n: u128) -> CorrelationId {
    CorrelationId::from_ulid(Ulid(n))
}

impl ControlPlane {
    async fn perform(&mut self, actions: Vec<ServerAction>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                ServerAction::Send(frame) => self.send(&frame).await,
                ServerAction::FindAgent(agent) => {
                    let found = Some(self.record.clone()).filter(|record| record.agent == agent);
                    actions.extend(self.machine.on_agent(found, |key, message, signature| {
                        UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
                    }));
                }
                ServerAction::Register { .. } => {
                    let registration = Registration { target: TARGET, epoch: 1 };
                    actions.extend(self.machine.on_registered(Some(registration)));
                }
                ServerAction::Close { code, reason } => {
                    let frame = CloseFrame { code: code.into(), reason: reason.into() };
                    self.socket.close(Some(frame)).await.unwrap();
                }
                ServerAction::Live(_)
                | ServerAction::Seen
                | ServerAction::Deliver { .. }
                | ServerAction::Dropped
                | ServerAction::AuthFailed { .. } => {}
            }
        }
    }

    async fn send(&mut self, frame: &ServerFrame) {
        self.socket.send(Message::text(frame.to_text())).await.unwrap();
    }

    /// Takes one message from the agent.
    async fn next(&mut self) -> Message {
        self.socket.next().await.expect("the link is open").unwrap()
    }

    async fn register(&mut self) {
        while !self.machine.is_live() {
            let message = self.next().await;
            let actions = self.machine.on_frame(message.to_text().unwrap());
            self.perform(actions).await;
        }
    }

    async fn call(&mut self, n: u128, command: &str) {
        let actions = self.machine.call(call(n), command.to_owned());
        self.perform(actions).await;
    }

    /// The next frame that is no ping; pings are answered.
    async fn answer(&mut self) -> AgentFrame {
        loop {
            match self.frame().await {
                AgentFrame::Ping => self.send(&ServerFrame::Pong).await,
                frame => return frame,
            }
        }
    }

    async fn frame(&mut self) -> AgentFrame {
        mcp_core::relay::parse_agent_frame(self.next().await.to_text().unwrap()).unwrap()
    }
}

fn failure(frame: &AgentFrame) -> (CorrelationId, FailureCode) {
    match frame {
        AgentFrame::ToolResult { call_id, outcome: CommandOutcome::Failed { code, .. } } => (*call_id, *code),
        _ => panic!("{frame:?}"),
    }
}

// proves: H-15, C-G20
#[tokio::test(start_paused = true)]
async fn the_heartbeat_does_not_wait_for_a_command() {
    let Dialled { mut control_plane, .. } = live(hanging_executor()).await;
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(25)).await;
    for n in 1..=4 {
        control_plane.call(n, "df -h").await;
    }
    assert_eq!(control_plane.frame().await, AgentFrame::Ping);
    assert_eq!(start.elapsed().as_secs(), 30, "in time, while four commands hang");
    for _ in 0..4 {
        assert_eq!(failure(&control_plane.frame().await).1, FailureCode::Timeout);
    }
    assert_eq!(start.elapsed().as_millis(), 34_500);
}

// proves: C-M23, H-16
#[tokio::test(start_paused = true)]
async fn a_link_without_answers_is_given_up_after_45_seconds() {
    let Dialled { mut control_plane, link, .. } = live(hanging_executor()).await;
    let start = Instant::now();
    let listens = async { while control_plane.socket.next().await.is_some_and(|m| m.is_ok()) {} };
    let (end, ()) = tokio::join!(link, listens);
    assert!(matches!(end.unwrap(), LinkEnd::Silent));
    assert_eq!(start.elapsed().as_secs(), 45);
}

// proves: H-16
#[tokio::test(start_paused = true)]
async fn a_link_with_answers_lives_on() {
    let Dialled { mut control_plane, link, .. } = live(hanging_executor()).await;
    for beat in 1..=5 {
        assert_eq!(control_plane.frame().await, AgentFrame::Ping, "beat {beat}");
        control_plane.send(&ServerFrame::Pong).await;
    }
    assert!(!link.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_never_registers_is_left() {
    let Dialled { control_plane, link, .. } = dialled(hanging_executor(), LocalPolicy::all_six(), HOST).await;
    let start = Instant::now();
    assert!(matches!(link.await.unwrap(), LinkEnd::NotRegistered));
    assert_eq!(start.elapsed().as_secs(), 10);
    drop(control_plane);
}

// proves: C-M03
#[tokio::test]
async fn a_signature_is_good_for_the_configured_host_only() {
    let mut relayed = dialled(hanging_executor(), LocalPolicy::all_six(), "evil.example").await;
    let message = relayed.control_plane.next().await;
    let actions = relayed.control_plane.machine.on_frame(message.to_text().unwrap());
    relayed.control_plane.perform(actions).await;
    let end = relayed.link.await.unwrap();
    assert!(matches!(end, LinkEnd::Unauthorized(reason) if reason == "unauthorized"));
}

// proves: C-G14, H-05
#[tokio::test]
async fn a_control_plane_in_the_wrong_hands_gets_refusals() {
    let narrow = LocalPolicy::from_json(br#"{"version":1,"commands":["uptime"]}"#).unwrap();
    let mut dialled = dialled(hanging_executor(), narrow, HOST).await;
    let control_plane = &mut dialled.control_plane;
    control_plane.register().await;
    for (n, text) in (1..).zip([
        "id",
        "uptime; id",
        "systemctl status -Hevil.example",
        "uptime\n",
        "",
        "\u{202e}",
        "df -h",
    ]) {
        control_plane.call(n, text).await;
        assert_eq!(failure(&control_plane.frame().await), (call(n), FailureCode::Rejected), "{text:?}");
    }
    // Nothing was started, and the link stays usable.
    tokio::time::timeout(Duration::from_millis(100), dialled.executor.idle()).await.unwrap();
    assert!(!dialled.link.is_finished());
}

// proves: C-G20
#[tokio::test]
async fn four_commands_run_at_once_and_the_fifth_is_told_so() {
    let Dialled { mut control_plane, executor, link } = live(hanging_executor()).await;
    for n in 1..=5 {
        control_plane.call(n, "uptime").await;
    }
    assert_eq!(failure(&control_plane.frame().await), (call(5), FailureCode::Busy));
    drop(control_plane);
    link.await.unwrap();
    executor.idle().await;
}

// proves: C-M17
#[tokio::test]
async fn a_call_that_arrives_twice_runs_once() {
    let Dialled { mut control_plane, .. } = live(Executor::new(None)).await;
    control_plane.call(1, "uptime").await;
    control_plane.call(1, "uptime").await;
    let (mut results, mut errors) = (0, 0);
    for _ in 0..2 {
        match control_plane.frame().await {
            AgentFrame::ToolResult { outcome: CommandOutcome::Ran(_), .. } => results += 1,
            AgentFrame::Error { .. } => errors += 1,
            frame => panic!("{frame:?}"),
        }
    }
    assert_eq!((results, errors), (1, 1));
}

#[tokio::test]
async fn a_cancelled_command_is_killed_and_reports_nothing() {
    let Dialled { mut control_plane, executor, .. } = live(hanging_executor()).await;
    control_plane.call(1, "uptime").await;
    let cancel = control_plane.machine.cancel(call(1));
    control_plane.perform(cancel).await;
    control_plane.call(2, "id").await;
    assert_eq!(failure(&control_plane.answer().await).0, call(2), "the first has nothing to say");
    executor.idle().await;
}

// proves: C-M16
#[tokio::test]
async fn a_lost_link_kills_its_commands() {
    let Dialled { mut control_plane, executor, link } = live(hanging_executor()).await;
    control_plane.call(1, "uptime").await;
    control_plane.call(2, "id").await;
    control_plane.answer().await;
    drop(control_plane);
    assert!(matches!(link.await.unwrap(), LinkEnd::Closed { .. } | LinkEnd::Broken(_)));
    executor.idle().await;
}

// proves: H-16
#[tokio::test]
async fn an_unknown_frame_is_answered_and_forgotten() {
    let Dialled { mut control_plane, link, .. } = live(hanging_executor()).await;
    control_plane.socket.send(Message::text(r#"{"type":"exec","command":"id"}"#)).await.unwrap();
    let error = AgentFrame::Error { error: "unknown message type".to_owned() };
    assert_eq!(control_plane.answer().await, error);
    assert!(!link.is_finished());
}

// proves: C-G07, C-M10
#[tokio::test]
async fn what_is_no_text_of_a_sane_size_ends_the_link() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

    let broken_text = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
    for (message, code) in [
        (Message::binary(vec![1]), CloseCode::Protocol),
        (Message::Frame(broken_text), CloseCode::Invalid),
        (Message::text(" ".repeat(MAX_FRAME_BYTES + 1)), CloseCode::Size),
    ] {
        let Dialled { control_plane, .. } = live(hanging_executor()).await;
        // Both at once: the agent stops reading in the middle of what is too large.
        let (mut sends, mut hears) = control_plane.socket.split();
        let sending = tokio::spawn(async move { sends.send(message).await });
        let farewell = loop {
            if let Message::Close(farewell) = hears.next().await.unwrap().unwrap() {
                break farewell.unwrap();
            }
        };
        assert_eq!(farewell.code, code);
        sending.abort();
    }
}

#[tokio::test]
async fn a_goodbye_and_a_newer_link_are_told_apart() {
    let Dialled { mut control_plane, link, .. } = live(hanging_executor()).await;
    control_plane.send(&ServerFrame::Goodbye { reconnect_after_ms: 1_500 }).await;
    let end = link.await.unwrap();
    assert!(matches!(end, LinkEnd::Goodbye { after } if after == Duration::from_millis(1_500)));

    let Dialled { mut control_plane, link, .. } = live(hanging_executor()).await;
    let superseded = CloseFrame { code: close::SUPERSEDED.into(), reason: "superseded".into() };
    control_plane.socket.close(Some(superseded)).await.unwrap();
    assert!(matches!(link.await.unwrap(), LinkEnd::Superseded));
}
