//! The doors that speak MCP (SPEC §7): [`http`] for clients, and [`in_process`] between the broker and its adapters. The
//! third one, stdio, is a bridge to the first and a crate of its own, `mcp-stdio`.
//!
//! rmcp does the wire, and none of its types leaves this module. What it does differently from the specification is mended
//! in `envelope`, before rmcp sees a message.

mod envelope;
mod handler;
pub mod http;
pub mod in_process;
mod server;

pub use self::server::{BrokerTools, ToolServer};
