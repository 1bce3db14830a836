#![doc = include_str!("../README.md")]

mod adapter;
mod check;
mod client;
mod config;
mod endpoint;
mod error;
mod ladder;
pub mod normalise;
mod paging;
mod token;
mod tools;
pub mod version;

pub use self::adapter::GiteaAdapter;
pub use self::config::GiteaOptions;
pub use self::token::{GiteaToken, TokenError};
