#![doc = include_str!("../README.md")]

pub mod canonical;
pub mod chain;
pub mod export;
pub mod lease;
pub mod memory;
pub mod outbox;
pub mod pseudonym;
pub mod reader;
pub mod sweeper;
pub mod verdict;
pub mod verify;
pub mod writer;

mod entry;
mod hex;

pub use entry::MAX_BODY_BYTES;
pub use writer::{AuditConfig, Health, NotDrained, PostgresAudit};
