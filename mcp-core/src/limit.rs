//! The port of the rate limiter.

use async_trait::async_trait;

use crate::id::{PrincipalId, TenantId};

/// What is left after a call was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Calls that fit into the principal's bucket when it is full.
    pub limit: u32,
    /// Calls that would still fit right now.
    pub remaining: u32,
}

/// The call does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rate limited for {retry_after_sec} s")]
pub struct RateLimited {
    /// Whole seconds until one call fits again; at least 1.
    pub retry_after_sec: u64,
}

/// Two buckets, one of the principal and one of its tenant; a call needs a token from both, and takes from both or from
/// neither (SPEC §15, REQUIREMENTS B-06).
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes one token from each bucket.
    async fn take(&self, tenant: TenantId, principal: PrincipalId) -> Result<Allowance, RateLimited>;
}
