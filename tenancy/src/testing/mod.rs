//! Databases for tests: real Postgres, one database per test, nothing left behind.
//!
//! The first test process starts a private server below the system's temporary directory; later ones, of any crate, share
//! it. A small keeper process ends it and removes its files when no test has run for a while. A test gets a copy of a
//! template that was migrated once, which takes some tens of milliseconds.

mod cluster;
mod database;
mod keeper;

pub use database::TestDatabase;
