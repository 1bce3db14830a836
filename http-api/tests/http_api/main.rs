//! The router in process, over a real Postgres and a real audit log.

mod adapters;
mod audit;
mod calls;
#[path = "../peers/fixtures.rs"]
mod fixtures;
mod gate;
mod keys;
mod mcp;
mod oauth;
mod statuses;
mod targets;
mod world;
