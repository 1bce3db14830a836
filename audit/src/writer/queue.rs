//! What waits to be written at one shard.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_core::audit::{AuditError, Link};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ack::Waiter;
use crate::entry::Entry;

/// The most rows of one transaction.
pub(crate) const BATCH_ROWS: usize = 512;
/// A batch is closed at the row that takes it past this.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How long an event that the database refused is left alone before it is tried again, by itself.
const ASIDE: Duration = Duration::from_secs(5);

/// One event on its way into the log.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    /// Nobody waits for an outcome that the writer itself owes.
    pub(crate) waiter: Option<Waiter>,
    /// It was part of a transaction that failed, and may be in the log all the same: look it up before writing it.
    pub(crate) tried: bool,
}

impl Item {
    /// Whether its caller has given up on it. Only intents can be withdrawn; outcomes and facts are owed.
    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(self.entry.link, Link::Intent { .. }) && self.waiter.as_ref().is_none_or(Waiter::is_closed)
    }
}

/// Any number of callers put in, one actor takes out.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    arrived: Notify,
    /// For intents and facts. Outcomes may fill twice as much.
    room: usize,
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Item>,
    /// Refused by the database; each is due again at its time.
    aside: VecDeque<(Instant, Item)>,
    /// Set when nothing new is taken: until then the actor may still try to empty the queue.
    closing: Option<Instant>,
}

impl Queue {
    pub(crate) fn new(room: usize) -> Self {
        Self { inner: Mutex::default(), arrived: Notify::new(), room }
    }

    /// Queues an event for a caller.
    pub(crate) fn push(&self, item: Item) -> Result<(), AuditError> {
        let mut inner = self.lock();
        if inner.closing.is_some() {
            return Err(AuditError::Unavailable);
        }
        let room = match item.entry.link {
            Link::Outcome { .. } => self.room * 2,
            Link::Intent { .. } | Link::Fact => self.room,
        };
        if inner.len() >= room {
            // During an outage the queue fills with intents that nobody waits for any more.
            inner.items.retain(|item| item.tried || !item.is_withdrawn());
            if inner.len() >= room {
                drop(inner);
                metrics::counter!("audit_write_failures_total", "reason" => "queue_full").increment(1);
                return Err(AuditError::Unavailable);
            }
        }
        inner.items.push_back(item);
        drop(inner);
        self.arrived.notify_one();
        Ok(())
    }

    /// Queues an outcome that the writer itself owes: never refused, as each replaces an intent that had its room.
    pub(crate) fn push_owed(&self, entry: Entry) {
        self.lock().items.push_back(Item { entry, waiter: None, tried: false });
        self.arrived.notify_one();
    }

    /// Puts a batch back where it was.
    pub(crate) fn put_back(&self, items: impl DoubleEndedIterator<Item = Item>) {
        let mut inner = self.lock();
        items.rev().for_each(|item| inner.items.push_front(item));
    }

    /// Leaves an event alone for a while, so that it does not block the others.
    pub(crate) fn set_aside(&self, item: Item) {
        self.lock().aside.push_back((Instant::now() + ASIDE, item));
    }

    /// Waits until there is something to take, or nothing will come any more.
    pub(crate) async fn ready(&self) {
        loop {
            let arrived = self.arrived.notified();
            let due = {
                let inner = self.lock();
                if !inner.items.is_empty() || (inner.closing.is_some() && inner.aside.is_empty()) {
                    return;
                }
                let due = inner.aside.front().map(|(due, _)| *due);
                due.into_iter().chain(inner.closing).min()
            };
            match due {
                None => arrived.await,
                Some(due) if due <= Instant::now() => return,
                Some(due) => drop(tokio::time::timeout_at(due, arrived).await),
            }
        }
    }

    /// Takes the next batch: events of which none depends on another one's being committed first.
    pub(crate) fn take(&self, batch: &mut Vec<Item>) {
        let mut inner = self.lock();
        if let Some((_, item)) = inner.aside.pop_front_if(|(due, _)| *due <= Instant::now()) {
            return batch.push(item);
        }
        let (mut bytes, mut events, mut intents) = (0, HashSet::new(), HashSet::new());
        while batch.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(item) = inner.items.pop_front() else { break };
            if item.is_withdrawn() && !item.tried {
                continue;
            }
            let entry = &item.entry;
            let waits = match entry.link {
                Link::Intent { correlation, .. } => !intents.insert((entry.tenant, correlation)),
                Link::Outcome { correlation } => intents.contains(&(entry.tenant, correlation)),
                Link::Fact => false,
            };
            if waits || !events.insert((entry.tenant, entry.id)) {
                inner.items.push_front(item);
                break;
            }
            bytes += entry.body.len();
            batch.push(item);
        }
    }

    /// Takes nothing new, and lets the actor try to empty the queue until `give_up`.
    pub(crate) fn close(&self, give_up: Instant) {
        self.lock().closing.get_or_insert(give_up);
        self.arrived.notify_one();
    }

    /// When the actor must stop trying, if it is to stop at all.
    pub(crate) fn gives_up_at(&self) -> Option<Instant> {
        self.lock().closing
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it holds the lock, and the state is whole between any two statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn len(&self) -> usize {
        self.items.len() + self.aside.len()
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::audit::{AuditEvent, Body, EventType};
    use mcp_core::id::{CorrelationId, EventId, InstanceId, TenantId};
    use tokio::sync::oneshot;
    use ulid::Ulid;
    use uuid::Uuid;

    use super::*;
    use crate::pseudonym::Pseudonyms;
    use crate::writer::ack::Delivery;

    type Answer = oneshot::Receiver<Result<Delivery, AuditError>>;

    const INSTANCE: InstanceId = InstanceId::from_uuid(Uuid::nil());

    fn item(event: u128, link: Link) -> (Item, Answer) {
        let event_type = match link {
            Link::Fact => EventType::KeyCreated,
            Link::Intent { .. } | Link::Outcome { .. } => EventType::CapabilityInvoked,
        };
        let (id, body) = (EventId::from_ulid(Ulid(event)), Body::new());
        let event = AuditEvent { id, tenant: TenantId::SYSTEM, event_type, body, link };
        let (waiter, answer) = oneshot::channel();
        let entry = Entry::new(event, &Pseudonyms::new(&[0; 32])).expect("it can be stored");
        (Item { entry, waiter: Some(waiter), tried: false }, answer)
    }

    fn intent(call: u128) -> Link {
        Link::Intent { correlation: CorrelationId::from_ulid(Ulid(call)), instance: INSTANCE }
    }

    fn outcome(call: u128) -> Link {
        Link::Outcome { correlation: CorrelationId::from_ulid(Ulid(call)) }
    }

    fn take(queue: &Queue) -> Vec<u128> {
        let mut batch = Vec::new();
        queue.take(&mut batch);
        batch.iter().map(|item| item.entry.id.as_ulid().0).collect()
    }

    // proves: C-K16
    #[test]
    fn an_intent_whose_caller_has_left_is_dropped_and_nothing_else_is() {
        let queue = Queue::new(10);
        for (event, link) in [(1, intent(1)), (2, outcome(2)), (3, Link::Fact)] {
            let (item, answer) = item(event, link);
            queue.push(item).unwrap();
            drop(answer);
        }
        let (mut sent, answer) = item(4, intent(4));
        sent.tried = true;
        drop(answer);
        queue.push(sent).unwrap();

        assert_eq!(take(&queue), [2, 3, 4]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_batch_ends_before_what_depends_on_it() {
        let queue = Queue::new(10);
        let links = [
            (1, intent(1)),
            (2, Link::Fact),
            (3, outcome(1)),
            (3, outcome(1)),
            (4, intent(4)),
            (5, intent(4)),
        ];
        let mut answers = Vec::new();
        for (event, link) in links {
            let (item, answer) = item(event, link);
            queue.push(item).unwrap();
            answers.push(answer);
        }
        assert_eq!(take(&queue), [1, 2]);
        assert_eq!(take(&queue), [3]);
        assert_eq!(take(&queue), [3, 4]);
        assert_eq!(take(&queue), [5]);
    }

    // proves: C-K15
    #[test]
    fn a_full_queue_has_room_for_outcomes_and_for_nobody_who_has_left() {
        let queue = Queue::new(2);
        let push = |event, link| {
            let (item, answer) = item(event, link);
            queue.push(item).map(|()| answer)
        };
        let (first, _second) = (push(1, intent(1)).unwrap(), push(2, Link::Fact).unwrap());
        assert_eq!(push(3, intent(3)).unwrap_err(), AuditError::Unavailable);
        assert_eq!(push(3, Link::Fact).unwrap_err(), AuditError::Unavailable);
        let (_fourth, _fifth) = (push(4, outcome(4)).unwrap(), push(5, outcome(5)).unwrap());
        assert_eq!(push(6, outcome(6)).unwrap_err(), AuditError::Unavailable);

        drop(first);
        assert!(push(6, outcome(6)).is_ok());
        assert_eq!(take(&queue), [2, 4, 5, 6]);
    }
}
