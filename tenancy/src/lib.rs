#![doc = include_str!("../README.md")]

pub mod connections;
pub mod embedded;
pub mod error;
pub mod idempotency;
pub mod lookup;
pub mod migrate;
pub mod outbox;
pub mod pool;
pub mod preflight;
pub mod stores;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tx;

mod session;

pub use error::TenancyError;
pub use pool::{PoolSize, Tenancy};
pub use tx::TenantTx;
