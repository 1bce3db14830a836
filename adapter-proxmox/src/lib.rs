#![doc = include_str!("../README.md")]

mod adapter;
mod check;
mod client;
mod config;
mod dial;
mod endpoint;
mod envelope;
mod error;
mod guest;
mod lenient;
mod nodes;
mod permissions;
mod token;
mod tools;
mod verdict;

pub use adapter::ProxmoxAdapter;
pub use config::{ProxmoxOptions, base_url};
pub use token::{PveToken, TokenFormError};
pub use tools::list_vms::normalise;
