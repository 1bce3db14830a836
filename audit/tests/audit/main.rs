//! Behaviour of the audit log, against a real Postgres, as the roles that use it.
#![expect(clippy::unwrap_used, reason = "helpers of tests; the configuration exempts test functions only")]

mod append_only;
mod concurrency;
mod export;
mod faults;
mod isolation;
mod lease;
mod mutation;
mod outbox;
mod tamper;
mod world;
mod writer;
