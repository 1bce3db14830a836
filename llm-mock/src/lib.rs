#![doc = include_str!("../README.md")]

mod completion;
mod decide;
mod error;
mod request;
mod server;

pub use server::{LlmMock, Running};
