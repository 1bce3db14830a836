#![doc = include_str!("../README.md")]

pub mod adapter;
pub mod agent;
pub mod audit;
pub mod error;
pub mod id;
pub mod json;
pub mod jsonrpc;
pub mod limit;
pub mod mcp;
pub mod policy;
pub mod principal;
pub mod relay;
pub mod secret;
pub mod stream;
pub mod tool;
