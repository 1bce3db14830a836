#![doc = include_str!("../README.md")]

mod adapter;
mod check;
mod client;
mod config;
mod endpoint;
mod error;
mod etag;
pub mod normalise;
mod rate;
mod token;
mod tools;

pub use self::adapter::GithubAdapter;
pub use self::config::{DEFAULT_BASE_URL, GithubOptions, base_url};
pub use self::token::{GithubToken, TokenError};
