#![doc = include_str!("../README.md")]

pub mod local_policy;
pub mod whitelist;

mod capture;
mod executor;
mod files;

pub use executor::RunAs;
