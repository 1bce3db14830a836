//! The writer: group commit over a bounded queue.
//!
//! `append` prepares an event and queues it at the shard of its tenant. One actor per shard takes whatever has gathered
//! while its last commit was under way, and writes it in one transaction of two round trips. An intent that nobody waits
//! for any more is dropped before it is written, or closed as `interrupted` after it.

mod ack;
mod actor;
mod append;
mod config;
mod failure;
mod handle;
mod health;
mod queue;
mod session;

pub use config::AuditConfig;
pub use handle::{NotDrained, PostgresAudit};
pub use health::Health;

pub(crate) use append::{Known, Transaction, Work, append, now_us};
pub(crate) use failure::Failure;
pub(crate) use health::ActorHealth;
pub(crate) use session::Session;
