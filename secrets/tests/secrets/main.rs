//! The local provider, seen from outside: what it answers, and what lies on the disk.
#![expect(clippy::unwrap_used, reason = "helpers of tests; the configuration exempts test functions only")]

mod files;
mod keys;
mod kill;
mod leaks;
mod provider;
mod tamper;
