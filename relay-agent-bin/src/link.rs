//! The driver of one link: runs the pure state machine of `mcp_core::relay` over a WebSocket.
//!
//! Everything happens in one loop that waits for the far end, for the next heartbeat and for commands to finish, never
//! for a command to run. When the loop ends, so do the commands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use mcp_core::id::{CorrelationId, TargetId};
use mcp_core::relay::{
    AgentAction, AgentFrame, AgentLink, CommandOutcome, FailureCode, HEARTBEAT, HostFacts, MAX_FRAME_BYTES,
    SILENCE_LIMIT, close,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use crate::capture::strip_controls;
use crate::dial::{Connection, DialError, Dialer};
use crate::executor::Executor;
use crate::identity::Identity;
use crate::local_policy::LocalPolicy;

const ENDPOINT: &str = "/api/relay/ws";
/// Time for the upgrade to a WebSocket, and for the control plane to register us.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for one frame to be taken. Longer than the far end's, because a full result over a thin line takes a while.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Time to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that a link reads at once; it mostly hears pongs.
const READ_BUFFER_BYTES: usize = 4 * 1024;

/// What all links of an agent have in common.
pub(crate) struct Agent {
    pub(crate) identity: Identity,
    pub(crate) facts: HostFacts,
    pub(crate) policy: LocalPolicy,
    pub(crate) executor: Arc<Executor>,
}

/// What happens on a link, for the status file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// The control plane has registered the agent.
    Registered(TargetId),
    /// The link was live when it was time for a heartbeat.
    Heartbeat,
}

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the control plane does not accept this agent: {0}")]
    Unauthorized(String),
    #[error("a newer link with the same key took over; does another host have a copy of this agent?")]
    Superseded,
    #[error("the control plane is going down")]
    Goodbye { after: Duration },
    #[error("what answered opens no link (HTTP {0})")]
    NotOpened(u16),
    #[error("the control plane did not open or register the link within 10 s")]
    NotRegistered,
    #[error("nothing was heard from the control plane for 45 s")]
    Silent,
    #[error("the control plane does not read what it is sent")]
    Stuck,
    #[error("the control plane closed the link ({code}: {reason})")]
    Closed { code: u16, reason: String },
    #[error("the control plane breaks the protocol: {0}")]
    Protocol(&'static str),
    #[error("the link broke")]
    Broken(#[source] Box<SocketError>),
}

/// Opens a link and serves it until it ends; `None` when that is because of `shutdown`.
///
/// Dropping the future drops the connection and kills the commands.
pub(crate) async fn serve(
    agent: &Agent,
    dialer: &Dialer,
    shutdown: &CancellationToken,
    on_event: impl FnMut(LinkEvent),
) -> Option<LinkEnd> {
    let mut socket = tokio::select! {
        biased;
        () = shutdown.cancelled() => return None,
        opened = open(dialer) => match opened {
            Ok(socket) => socket,
            Err(end) => return Some(end),
        },
    };
    let end = tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        end = drive(agent, &mut socket, on_event) => Some(end),
    };
    let code = end.as_ref().map_or(CloseCode::Away, LinkEnd::close_code);
    let farewell = CloseFrame { code, reason: "".into() };
    // Politeness only: whoever does not listen will notice anyway.
    let _ = timeout(CLOSE_TIMEOUT, socket.close(Some(farewell))).await;
    end
}

/// Proves the key to the control plane and goes no further: nothing is registered, and a live link is not disturbed.
///
/// Says nothing when the key was accepted, else why not.
pub(crate) async fn prove(identity: &Identity, dialer: &Dialer) -> Result<(), LinkEnd> {
    let mut socket = open(dialer).await?;
    let mut machine = AgentLink::new(identity.agent, identity.url.authority(), HostFacts::default());
    let proven = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    for action in machine.on_frame(&text) {
                        let AgentAction::Sign(message) = action else {
                            return Err(LinkEnd::Protocol("it did not begin with a challenge"));
                        };
                        let mut answers = machine.on_signed(identity.sign(&message).as_ref()).into_iter();
                        // The proof alone, and then something that only a registered agent may say: a control plane that
                        // accepted the proof ends the link because of the second, and any other because of the first.
                        let Some(AgentAction::Send(proof)) = answers.next() else {
                            return Err(LinkEnd::Protocol("there is no proof to give"));
                        };
                        socket.send(Message::text(proof.to_text())).await?;
                        socket.send(Message::text(AgentFrame::Ping.to_text())).await?;
                    }
                }
                Some(Ok(Message::Close(frame))) => return after_proof(closed(frame)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(closed(None)),
            }
        }
    };
    timeout(OPEN_TIMEOUT, proven).await.map_err(|_| LinkEnd::NotRegistered)?
}

fn after_proof(end: LinkEnd) -> Result<(), LinkEnd> {
    match end {
        LinkEnd::Closed { code: close::PROTOCOL, .. } => Ok(()),
        other => Err(other),
    }
}

async fn open(dialer: &Dialer) -> Result<WebSocketStream<Box<dyn Connection>>, LinkEnd> {
    let stream = dialer.dial().await?;
    let url = dialer.url().websocket(ENDPOINT);
    let opening = tokio_tungstenite::client_async_with_config(url, stream, Some(limits()));
    match timeout(OPEN_TIMEOUT, opening).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(SocketError::Http(answer))) => match answer.status().as_u16() {
            status @ (401 | 403) => Err(LinkEnd::Unauthorized(format!("HTTP {status}"))),
            status => Err(LinkEnd::NotOpened(status)),
        },
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(LinkEnd::NotRegistered),
    }
}

/// What a link may use of this host's memory. Messages are never fragmented, so both limits are the same.
fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        // Each frame is waited for, so there is nothing to gather.
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_FRAME_BYTES)
        .max_frame_size(Some(MAX_FRAME_BYTES))
        .max_message_size(Some(MAX_FRAME_BYTES))
}

/// Serves an open socket until the link ends.
async fn drive<S>(agent: &Agent, socket: &mut WebSocketStream<S>, on_event: impl FnMut(LinkEvent)) -> LinkEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let machine =
        AgentLink::new(agent.identity.agent, agent.identity.url.authority(), agent.facts.clone().bounded());
    let mut driver =
        Driver { agent, socket, machine, on_event, commands: JoinSet::new(), running: HashMap::new() };
    let end = match driver.run().await {
        Ok(never) => match never {},
        Err(end) => end,
    };
    // Whoever asked is gone, and so must be what it asked for.
    driver.commands.shutdown().await;
    end
}

struct Driver<'a, S, E> {
    agent: &'a Agent,
    socket: &'a mut WebSocketStream<S>,
    machine: AgentLink,
    on_event: E,
    commands: JoinSet<(CorrelationId, CommandOutcome)>,
    running: HashMap<CorrelationId, AbortHandle>,
}

impl<S, E> Driver<'_, S, E>
where
    S: AsyncRead + AsyncWrite + Unpin,
    E: FnMut(LinkEvent),
{
    async fn run(&mut self) -> Result<std::convert::Infallible, LinkEnd> {
        let opened = Instant::now();
        let mut heard = opened;
        let mut heartbeat = interval_at(opened + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let live = self.machine.is_live();
            let (deadline, too_late) = if live {
                (heard + SILENCE_LIMIT, LinkEnd::Silent)
            } else {
                (opened + OPEN_TIMEOUT, LinkEnd::NotRegistered)
            };
            let actions = tokio::select! {
                message = self.socket.next() => {
                    heard = Instant::now();
                    self.receive(message)?
                }
                Some(finished) = self.commands.join_next() => self.finish(finished),
                _ = heartbeat.tick(), if live => {
                    (self.on_event)(LinkEvent::Heartbeat);
                    vec![AgentAction::Send(AgentFrame::Ping)]
                }
                () = sleep_until(deadline) => return Err(too_late),
            };
            self.perform(actions).await?;
        }
    }

    fn receive(
        &mut self,
        message: Option<Result<Message, SocketError>>,
    ) -> Result<Vec<AgentAction>, LinkEnd> {
        match message {
            Some(Ok(Message::Text(text))) => Ok(self.machine.on_frame(&text)),
            // The library answers pings itself.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(Vec::new()),
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => {
                Err(LinkEnd::Protocol("a message that is no text"))
            }
            Some(Ok(Message::Close(frame))) => Err(closed(frame)),
            Some(Err(error)) => Err(error.into()),
            None => Err(closed(None)),
        }
    }

    /// Takes a command that has ended. One that was aborted has nothing to say.
    fn finish(&mut self, finished: Result<(CorrelationId, CommandOutcome), JoinError>) -> Vec<AgentAction> {
        let (call, outcome) = match finished {
            Ok(finished) => finished,
            Err(error) => {
                let Some(call) = self.call_of(&error) else { return Vec::new() };
                (call, CommandOutcome::failed(FailureCode::SpawnFailed, "the agent failed to run it"))
            }
        };
        self.running.remove(&call);
        tracing::debug!(call.id = %call, "a command has ended");
        self.machine.on_finished(call, outcome)
    }

    fn call_of(&self, error: &JoinError) -> Option<CorrelationId> {
        self.running.iter().find(|(_, handle)| handle.id() == error.id()).map(|(call, _)| *call)
    }

    async fn perform(&mut self, actions: Vec<AgentAction>) -> Result<(), LinkEnd> {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                AgentAction::Send(frame) => self.send(&frame).await?,
                AgentAction::Sign(message) => {
                    let signature = self.agent.identity.sign(&message);
                    actions.extend(self.machine.on_signed(signature.as_ref()));
                }
                AgentAction::Registered { target } => (self.on_event)(LinkEvent::Registered(target)),
                AgentAction::Run { call, command, timeout_ms } => {
                    actions.extend(self.start(call, &command, timeout_ms));
                }
                AgentAction::Abort { call } => {
                    if let Some(handle) = self.running.remove(&call) {
                        handle.abort();
                    }
                }
                AgentAction::Leave { reconnect_after_ms } => {
                    return Err(LinkEnd::Goodbye { after: Duration::from_millis(reconnect_after_ms) });
                }
                AgentAction::Close { reason } => return Err(LinkEnd::Protocol(reason)),
            }
        }
        Ok(())
    }

    /// Checks a command with this host's own eyes and starts it beside everything else.
    fn start(&mut self, call: CorrelationId, text: &str, timeout_ms: u64) -> Vec<AgentAction> {
        let admitted = match self.agent.policy.admit(text) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                // The control plane has its own check, so this means that it is broken or in the wrong hands.
                tracing::warn!(call.id = %call, %refusal, "the control plane sent a command that must not run here");
                let outcome = CommandOutcome::failed(FailureCode::Rejected, refusal.to_string());
                return self.machine.on_finished(call, outcome);
            }
        };
        // The one place where a command is written down: the owner of this host may want to know what was asked of it.
        tracing::info!(call.id = %call, command = %admitted.command(), "a command runs");
        let executor = Arc::clone(&self.agent.executor);
        let handle = self.commands.spawn(async move { (call, executor.run(admitted, timeout_ms).await) });
        self.running.insert(call, handle);
        Vec::new()
    }

    async fn send(&mut self, frame: &AgentFrame) -> Result<(), LinkEnd> {
        match timeout(SEND_TIMEOUT, self.socket.send(Message::text(frame.to_text()))).await {
            Ok(sent) => Ok(sent?),
            Err(_) => Err(LinkEnd::Stuck),
        }
    }
}

impl LinkEnd {
    /// The code that we close with.
    fn close_code(&self) -> CloseCode {
        match self {
            Self::Protocol(_) => CloseCode::Protocol,
            Self::Broken(error) => match **error {
                SocketError::Utf8(_) => CloseCode::Invalid,
                SocketError::Capacity(_) => CloseCode::Size,
                _ => CloseCode::Away,
            },
            Self::Dial(_)
            | Self::Unauthorized(_)
            | Self::Superseded
            | Self::Goodbye { .. }
            | Self::NotOpened(_)
            | Self::NotRegistered
            | Self::Silent
            | Self::Stuck
            | Self::Closed { .. } => CloseCode::Away,
        }
    }
}

impl From<SocketError> for LinkEnd {
    fn from(error: SocketError) -> Self {
        Self::Broken(Box::new(error))
    }
}

fn closed(frame: Option<CloseFrame>) -> LinkEnd {
    let (code, reason) = match frame {
        Some(frame) => (u16::from(frame.code), strip_controls(&frame.reason)),
        None => (1005, "without a reason".to_owned()),
    };
    match code {
        close::UNAUTHORIZED => LinkEnd::Unauthorized(reason),
        close::SUPERSEDED => LinkEnd::Superseded,
        code => LinkEnd::Closed { code, reason },
    }
}

#[cfg(test)]
mod tests;
