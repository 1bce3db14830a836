#![doc = include_str!("../README.md")]

mod class;
mod client;
mod dial;
mod error;
mod get;
mod policy;
mod pool;
mod proxy;
mod refusal;
mod resolver;
mod response;
mod target;
#[cfg(feature = "testing")]
pub mod testing;
mod trust;
mod verifier;
mod vetted;

pub use client::{TlsProbe, UpstreamClient};
pub use error::EgressError;
pub use get::Get;
pub use policy::{EgressPolicy, Mode};
pub use proxy::{NotAProxy, ProxyUrl};
pub use refusal::{AddressClass, Refusal};
pub use resolver::{ResolveError, Resolver, SystemResolver};
pub use response::Response;
pub use target::EgressUrl;
pub use trust::{TlsTrust, TrustError};
