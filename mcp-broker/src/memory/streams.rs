//! Call streams within one process (SPEC §6): buffered, replayed, bounded in time and size.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt};
use mcp_core::id::CorrelationId;
use mcp_core::stream::{
    CallEvent, CallEventKind, CallStreams, Delivery, Stop, StopReason, StreamOwner, UnknownCall,
};
use tokio::sync::watch;
use tokio::time::Instant;

/// A running call whose stream nobody has opened by then is stopped.
const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// A call that still runs by then is stopped.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long a finished stream can be replayed.
const REPLAY_FOR: Duration = Duration::from_secs(60);
/// How often the limits above are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Most events of one call.
const MAX_EVENTS: usize = 100;
/// Most bytes of several events that a reader may let pile up.
const MAX_BACKLOG_BYTES: usize = 1024 * 1024;

/// Streams of the calls of one process. Its janitor ends when the last handle is dropped.
#[derive(Debug)]
pub struct MemoryStreams {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    by_id: HashMap<CorrelationId, Arc<Call>>,
    /// Calls in the order of their opening, and finished ones in the order of their end: the delays are constant, so
    /// the head of each queue is the next one due.
    unopened: VecDeque<(Instant, CorrelationId)>,
    living: VecDeque<(Instant, CorrelationId)>,
    finished: VecDeque<(Instant, CorrelationId)>,
}

struct Call {
    owner: StreamOwner,
    stop: Stop,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    events: Vec<CallEvent>,
    ended: bool,
    opened: bool,
    readers: usize,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl MemoryStreams {
    /// Starts without any call. Must be called within a Tokio runtime, which then runs the janitor.
    #[must_use]
    pub fn start() -> Self {
        let inner = Arc::new(Inner::default());
        tokio::spawn(keep_house(Arc::downgrade(&inner)));
        Self { inner }
    }
}

async fn keep_house(inner: Weak<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        inner.tick(Instant::now());
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, call: CorrelationId) -> Option<Arc<Call>> {
        self.lock().by_id.get(&call).cloned()
    }

    fn tick(&self, now: Instant) {
        let mut due = Vec::new();
        {
            let mut calls = self.lock();
            let Calls { by_id, unopened, living, finished } = &mut *calls;
            for id in drain_due(unopened, now) {
                if let Some(call) = by_id.get(&id).filter(|call| !call.state().opened) {
                    due.push((Arc::clone(call), StopReason::NotOpened));
                }
            }
            for id in drain_due(living, now) {
                if let Some(call) = by_id.get(&id) {
                    due.push((Arc::clone(call), StopReason::Expired));
                }
            }
            for id in drain_due(finished, now) {
                by_id.remove(&id);
            }
        }
        for (call, reason) in due {
            if !call.state().ended {
                (call.stop)(reason);
            }
        }
    }
}

fn drain_due(queue: &mut VecDeque<(Instant, CorrelationId)>, now: Instant) -> Vec<CorrelationId> {
    let due = queue.iter().take_while(|(at, _)| *at <= now).count();
    queue.drain(..due).map(|(_, id)| id).collect()
}

impl Call {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CallStreams for MemoryStreams {
    async fn open(&self, call: CorrelationId, owner: StreamOwner, stop: Stop) {
        let now = Instant::now();
        let entry = Call { owner, stop, state: Mutex::default(), changed: watch::Sender::new(()) };
        let mut calls = self.inner.lock();
        calls.by_id.insert(call, Arc::new(entry));
        calls.unopened.push_back((now + OPEN_WITHIN, call));
        calls.living.push_back((now + LIFETIME, call));
    }

    async fn publish(&self, call: CorrelationId, kind: CallEventKind, data: String) {
        let Some(entry) = self.inner.find(call) else { return };
        {
            let mut state = entry.state();
            // The last place is kept for the terminal event, so that a stream always has an end.
            if state.ended || (state.events.len() + 1 >= MAX_EVENTS && !kind.is_terminal()) {
                return;
            }
            let seq = state.events.len() as u64;
            state.events.push(CallEvent { seq, kind, data: data.into() });
            state.ended = kind.is_terminal();
        }
        if kind.is_terminal() {
            self.inner.lock().finished.push_back((Instant::now() + REPLAY_FOR, call));
        }
        // Nobody may be reading yet; the buffer keeps the event.
        entry.changed.send_replace(());
    }

    async fn attach(
        &self,
        call: CorrelationId,
        owner: StreamOwner,
        after: Option<u64>,
    ) -> Result<BoxStream<'static, Delivery>, UnknownCall> {
        let entry = self.inner.find(call).filter(|entry| entry.owner == owner).ok_or(UnknownCall)?;
        let reader = Reader::enter(entry, after);
        Ok(stream::unfold(Some(reader), read_next).boxed())
    }
}

struct Reader {
    call: Arc<Call>,
    changed: watch::Receiver<()>,
    /// Index of the next event to hand over.
    next: usize,
    /// Events that stood in the buffer when the reader came: their number is not the reader's fault.
    replayed: usize,
}

impl Reader {
    fn enter(call: Arc<Call>, after: Option<u64>) -> Self {
        let changed = call.changed.subscribe();
        let replayed = {
            let mut state = call.state();
            state.opened = true;
            state.readers += 1;
            state.events.len()
        };
        let next = after.map_or(0, |seq| usize::try_from(seq).unwrap_or(usize::MAX).saturating_add(1));
        Self { call, changed, next: next.min(replayed), replayed }
    }

    fn take(&mut self) -> Taken {
        let state = self.call.state();
        let backlog = &state.events[self.next.max(self.replayed).min(state.events.len())..];
        let bytes: usize = backlog.iter().map(|event| event.data.len()).sum();
        if backlog.len() + 1 >= MAX_EVENTS || (backlog.len() > 1 && bytes > MAX_BACKLOG_BYTES) {
            return Taken::TooSlow;
        }
        match state.events.get(self.next) {
            Some(event) => {
                self.next += 1;
                Taken::Event(event.clone())
            }
            None if state.ended => Taken::End,
            None => Taken::Nothing,
        }
    }
}

enum Taken {
    Event(CallEvent),
    TooSlow,
    End,
    Nothing,
}

async fn read_next(reader: Option<Reader>) -> Option<(Delivery, Option<Reader>)> {
    let mut reader = reader?;
    loop {
        match reader.take() {
            Taken::Event(event) => return Some((Delivery::Event(event), Some(reader))),
            Taken::TooSlow => return Some((Delivery::TooSlow, None)),
            Taken::End => return None,
            Taken::Nothing => reader.changed.changed().await.ok()?,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let abandoned = {
            let mut state = self.call.state();
            state.readers -= 1;
            state.readers == 0 && !state.ended
        };
        if abandoned {
            (self.call.stop)(StopReason::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::id::{PrincipalId, TenantId};
    use ulid::Ulid;
    use uuid::Uuid;

    use super::*;

    const CALL: CorrelationId = CorrelationId::from_ulid(Ulid(7));

    fn owner(n: u128) -> StreamOwner {
        StreamOwner {
            tenant: TenantId::from_uuid(Uuid::from_u128(1)),
            principal: PrincipalId::from_uuid(Uuid::from_u128(n)),
        }
    }

    async fn opened() -> (MemoryStreams, Arc<Mutex<Vec<StopReason>>>) {
        let streams = MemoryStreams::start();
        let stops = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&stops);
        streams.open(CALL, owner(1), Arc::new(move |reason| seen.lock().expect("lock").push(reason))).await;
        (streams, stops)
    }

    async fn seqs(reader: BoxStream<'static, Delivery>) -> Vec<u64> {
        let seq = |delivery| match delivery {
            Delivery::Event(event) => event.seq,
            Delivery::TooSlow => u64::MAX,
        };
        reader.map(seq).collect().await
    }

    async fn finish(streams: &MemoryStreams) {
        streams.publish(CALL, CallEventKind::ToolResult, "{}".to_owned()).await;
        streams.publish(CALL, CallEventKind::Done, "{}".to_owned()).await;
    }

    // proves: E-15, E-01, C-N04
    #[tokio::test(start_paused = true)]
    async fn a_finished_call_is_replayed_to_every_reader_from_where_it_left() {
        let (streams, _) = opened().await;
        finish(&streams).await;

        for (after, expected) in
            [(None, vec![0, 1]), (Some(0), vec![1]), (Some(1), vec![]), (Some(99), vec![])]
        {
            let reader = streams.attach(CALL, owner(1), after).await.expect("attached");
            assert_eq!(seqs(reader).await, expected, "after {after:?}");
        }
    }

    // proves: E-14, C-B04, E-12
    #[tokio::test(start_paused = true)]
    async fn a_stranger_finds_nothing() {
        let (streams, _) = opened().await;
        assert!(streams.attach(CALL, owner(2), None).await.is_err());
        assert!(streams.attach(CorrelationId::from_ulid(Ulid(8)), owner(1), None).await.is_err());
    }

    // proves: E-07
    #[tokio::test(start_paused = true)]
    async fn an_unopened_call_is_stopped_after_thirty_seconds() {
        let (streams, stops) = opened().await;
        tokio::time::sleep(OPEN_WITHIN - TICK).await;
        assert!(stops.lock().expect("lock").is_empty());
        tokio::time::sleep(2 * TICK).await;
        assert_eq!(*stops.lock().expect("lock"), [StopReason::NotOpened]);
        drop(streams);
    }

    // proves: E-08
    #[tokio::test(start_paused = true)]
    async fn a_stream_lives_sixty_seconds_and_is_replayable_sixty_more() {
        let (streams, stops) = opened().await;
        let reader = streams.attach(CALL, owner(1), None).await.expect("attached");
        tokio::time::sleep(LIFETIME + TICK).await;
        assert_eq!(*stops.lock().expect("lock"), [StopReason::Expired]);

        finish(&streams).await;
        assert_eq!(seqs(reader).await, [0, 1]);
        tokio::time::sleep(REPLAY_FOR - TICK).await;
        assert!(streams.attach(CALL, owner(1), None).await.is_ok());
        tokio::time::sleep(2 * TICK).await;
        assert!(streams.attach(CALL, owner(1), None).await.is_err());
        assert!(streams.inner.lock().by_id.is_empty());
    }

    // proves: E-10, E-11
    #[tokio::test(start_paused = true)]
    async fn only_the_last_reader_to_leave_before_the_end_stops_the_call() {
        let (streams, stops) = opened().await;
        let first = streams.attach(CALL, owner(1), None).await.expect("attached");
        let second = streams.attach(CALL, owner(1), None).await.expect("attached");
        drop(first);
        assert!(stops.lock().expect("lock").is_empty());
        drop(second);
        assert_eq!(*stops.lock().expect("lock"), [StopReason::Abandoned]);

        finish(&streams).await;
        drop(streams.attach(CALL, owner(1), None).await.expect("attached"));
        assert_eq!(stops.lock().expect("lock").len(), 1, "leaving after the end stops nothing");
    }

    // proves: E-09, C-N03
    #[tokio::test(start_paused = true)]
    async fn a_reader_that_lets_events_pile_up_is_cut() {
        let (streams, _) = opened().await;
        let idle = streams.attach(CALL, owner(1), None).await.expect("attached");
        for _ in 0..200 {
            streams.publish(CALL, CallEventKind::ToolResult, "{}".to_owned()).await;
        }
        streams.publish(CALL, CallEventKind::Done, "{}".to_owned()).await;
        assert_eq!(seqs(idle).await, [u64::MAX]);

        let late = streams.attach(CALL, owner(1), None).await.expect("attached");
        assert_eq!(seqs(late).await.len(), MAX_EVENTS, "a replay is not the reader's fault");
    }

    #[tokio::test(start_paused = true)]
    async fn one_large_event_is_no_pile_and_several_are() {
        let (streams, _) = opened().await;
        let reader = streams.attach(CALL, owner(1), None).await.expect("attached");
        let large = "x".repeat(MAX_BACKLOG_BYTES + 1);
        streams.publish(CALL, CallEventKind::ToolResult, large.clone()).await;
        let mut reader = reader;
        assert!(matches!(reader.next().await, Some(Delivery::Event(_))));
        streams.publish(CALL, CallEventKind::ToolResult, large.clone()).await;
        streams.publish(CALL, CallEventKind::ToolResult, large).await;
        assert_eq!(reader.next().await, Some(Delivery::TooSlow));
    }
}
