//! The loop of one shard: take a batch, write it, tell everyone; and what to do when that fails.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::audit::{AuditError, Link};
use mcp_core::id::InstanceId;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Config;

use super::ack::Delivery;
use super::append::{Done, Known, Transaction, Work, append};
use super::failure::Failure;
use super::health::ActorHealth;
use super::queue::{BATCH_ROWS, Item, Queue};
use super::session::Session;
use crate::entry::Entry;

/// Behind the role's own `statement_timeout` of 10 s, for a server that is too far gone to keep it.
const BATCH_LIMIT: Duration = Duration::from_secs(12);
const ROLLBACK_LIMIT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Actor {
    queue: Arc<Queue>,
    config: Config,
    instance: InstanceId,
    health: Arc<ActorHealth>,
    session: Option<Session>,
    known: Known,
    pause: Duration,
}

impl Actor {
    pub(crate) fn new(
        queue: Arc<Queue>,
        config: Config,
        instance: InstanceId,
        health: Arc<ActorHealth>,
    ) -> Self {
        Self { queue, config, instance, health, session: None, known: Known::new(), pause: SHORTEST_PAUSE }
    }

    /// Runs until the queue is closed and empty, or the time to empty it is over.
    pub(crate) async fn run(mut self) {
        let _stopped = Stopped(Arc::clone(&self.health));
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        while self.queue.gives_up_at().is_none_or(|at| Instant::now() < at) {
            let Some(mut session) = self.connected().await else { continue };
            tokio::select! {
                biased;
                () = self.queue.ready() => {}
                () = session.closed() => {
                    self.failed(&Failure::Lost("the server ended it".to_owned())).await;
                    continue;
                }
            }
            self.queue.take(&mut batch);
            if batch.is_empty() {
                self.session = Some(session);
                if self.queue.gives_up_at().is_some() && self.queue.len() == 0 {
                    break;
                }
                continue;
            }
            self.session = self.process(session, &mut batch).await;
        }
    }

    async fn connected(&mut self) -> Option<Session> {
        if let Some(session) = self.session.take() {
            return Some(session);
        }
        match Session::open(&self.config).await {
            Ok(session) => {
                self.health.succeeded();
                Some(session)
            }
            Err(failure) => {
                self.failed(&failure).await;
                None
            }
        }
    }

    /// Writes a batch, and gives the session back if it can still be used.
    async fn process(&mut self, session: Session, batch: &mut Vec<Item>) -> Option<Session> {
        let (session, result) = self.attempt(session, batch).await;
        match result {
            Ok(done) => {
                self.succeeded();
                batch.drain(..).zip(done).for_each(|(item, done)| self.settle(item, done));
                session
            }
            Err(Failure::Row(_)) => self.one_by_one(session, batch).await,
            Err(failure @ (Failure::Server(_) | Failure::Lost(_))) => {
                self.queue.put_back(batch.drain(..));
                self.failed(&failure).await;
                session
            }
        }
    }

    /// A row that cannot be written must not keep the others from being written.
    async fn one_by_one(&mut self, session: Option<Session>, batch: &mut Vec<Item>) -> Option<Session> {
        let mut session = session;
        let mut rest = std::mem::take(batch).into_iter();
        while let Some(item) = rest.next() {
            let mut single = [item];
            let Some(usable) = session.take() else {
                self.queue.put_back(single.into_iter().chain(rest));
                return None;
            };
            let (after, result) = self.attempt(usable, &mut single).await;
            session = after;
            let [item] = single;
            match result {
                Ok(done) => done.into_iter().zip([item]).for_each(|(done, item)| self.settle(item, done)),
                Err(failure @ Failure::Row(_)) => {
                    self.health.failed(&failure);
                    self.refuse(item);
                }
                Err(failure @ (Failure::Server(_) | Failure::Lost(_))) => {
                    self.queue.put_back(std::iter::once(item).chain(rest));
                    self.failed(&failure).await;
                    return session;
                }
            }
        }
        self.succeeded();
        session
    }

    async fn attempt(
        &mut self,
        session: Session,
        batch: &mut [Item],
    ) -> (Option<Session>, Result<Vec<Done>, Failure>) {
        let result = timeout(BATCH_LIMIT, append(&session, &mut self.known, Transaction::Begin, batch)).await;
        let result =
            result.unwrap_or_else(|_| Err(Failure::Lost("the server did not answer in time".to_owned())));
        match result {
            Ok(done) => {
                metrics::histogram!("audit_batch_rows").record(done.len() as f64);
                (Some(session), Ok(done))
            }
            Err(failure) => {
                batch.iter_mut().for_each(|item| item.tried = true);
                let usable = match failure {
                    Failure::Row(_) | Failure::Server(_) => {
                        let rollback =
                            timeout(ROLLBACK_LIMIT, session.client.batch_execute("rollback")).await;
                        matches!(rollback, Ok(Ok(())))
                    }
                    Failure::Lost(_) => false,
                };
                (usable.then_some(session), Err(failure))
            }
        }
    }

    fn settle(&self, item: Item, done: Done) {
        let Item { entry, waiter, .. } = item;
        let answer = match done {
            Done::Written(receipt) => Ok(Delivery::new(receipt, entry, &self.queue, self.instance)),
            Done::AlreadyClosed => Err(AuditError::AlreadyClosed),
            Done::Withdrawn => return,
        };
        if let Some(waiter) = waiter {
            // If nobody waits, the answer comes back and is dropped here, which closes an intent.
            drop(waiter.send(answer));
        }
    }

    /// An intent that cannot be written fails its call; an outcome or a fact is still owed.
    fn refuse(&self, item: Item) {
        match (item.entry.link, item.waiter) {
            (Link::Intent { .. }, Some(waiter)) => drop(waiter.send(Err(AuditError::Unavailable))),
            (Link::Intent { .. }, None) => {}
            (Link::Outcome { .. } | Link::Fact, waiter) => {
                self.queue.set_aside(Item { entry: item.entry, waiter, tried: true });
            }
        }
    }

    fn succeeded(&mut self) {
        self.health.succeeded();
        self.pause = SHORTEST_PAUSE;
    }

    /// Tells of a failure and pauses, longer each time.
    async fn failed(&mut self, failure: &Failure) {
        self.health.failed(failure);
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let until = self.queue.gives_up_at().map_or(until, |at| at.min(until));
        sleep_until(until).await;
    }
}

/// Tells of the actor's end, even if that is a panic.
struct Stopped(Arc<ActorHealth>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stopped();
    }
}

impl Work for Item {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn may_be_there(&self) -> bool {
        self.tried
    }

    fn is_withdrawn(&self) -> bool {
        Item::is_withdrawn(self)
    }
}
