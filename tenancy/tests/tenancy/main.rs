//! Behaviour of the database layer, against a real Postgres, as the application's own role.
#![expect(clippy::unwrap_used, reason = "helpers of tests; the configuration exempts test functions only")]

mod catalogue;
mod embedded;
mod isolation;
mod pool;
mod preflight;
mod stores;
