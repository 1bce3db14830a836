#![doc = include_str!("../README.md")]

mod adapter;
mod hub;
mod link;
pub mod whitelist;

pub use self::adapter::SshAdapter;
pub use self::hub::{Hub, HubError};
pub use self::link::{Inbound, Outbound, serve};
