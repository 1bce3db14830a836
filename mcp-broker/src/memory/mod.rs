//! An implementation in memory of every port, so that the broker runs alone (that of secrets is `secrets::MemorySecrets`).
//!
//! [`MemoryLimiter`] and [`MemoryStreams`] are what a single control plane uses in production. The others keep nothing
//! beyond the process and serve embedding, examples and tests.

mod audit;
mod directory;
mod limiter;
mod streams;

pub use self::audit::MemoryAudit;
pub use self::directory::MemoryDirectory;
pub use self::limiter::{Limits, MemoryLimiter};
pub use self::streams::MemoryStreams;
