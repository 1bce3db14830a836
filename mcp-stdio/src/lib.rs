#![doc = include_str!("../README.md")]

mod bridge;
mod lines;
mod message;
mod server;

pub use self::bridge::Bridge;
pub use self::server::{LocateError, Server};
