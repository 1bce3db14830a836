//! Rows in, structs out. Every function runs in the caller's [`crate::TenantTx`], and a state change puts its audit event
//! into the outbox of the same transaction.

pub mod adapter;
pub mod agent;
pub mod target;
pub mod tenant;
pub mod tool_policy;
