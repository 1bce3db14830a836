#![doc = include_str!("../README.md")]

pub mod dial;
pub mod doctor;
pub mod enroll;
pub mod facts;
pub mod http;
pub mod identity;
pub mod local_policy;
pub mod proxy;
pub mod run;
pub mod server_url;
pub mod status;
pub mod trust;
pub mod whitelist;

mod backoff;
mod capture;
mod executor;
mod files;
mod link;
