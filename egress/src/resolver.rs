//! Names to addresses.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Lookups that run at once. A lookup cannot be cancelled and holds a thread for as long as the system's resolver
/// waits, so that names with a slow server must not take every thread.
const MAX_LOOKUPS: usize = 64;

static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_LOOKUPS)));

/// Why a name gave no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name is known to have no address.
    #[error("the name has no address")]
    NotFound,
    /// The resolver could not say.
    #[error("the resolver could not say")]
    Unavailable,
}

/// Tells the addresses of a name. Called once for every connection, never for an IP literal.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of `host`. An empty list counts as [`ResolveError::NotFound`]. The caller bounds the time, and
    /// drops the future when it is up.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError>;
}

/// The resolver of the operating system, with its `hosts` file.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let permit = Arc::clone(&LOOKUPS).acquire_owned().await.map_err(|_| ResolveError::Unavailable)?;
        let host = host.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            // Held by the thread, not by the future: a dropped future leaves the thread waiting.
            let _permit = permit;
            (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
        });
        match lookup.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) if says_no(&error.to_string()) => Err(ResolveError::NotFound),
            Ok(Err(_)) | Err(_) => Err(ResolveError::Unavailable),
        }
    }
}

/// Whether the system's resolver gave a definite no. The standard library keeps only its words: glibc's, musl's,
/// and those of Apple and Windows.
fn says_no(error: &str) -> bool {
    [
        "Name or service not known",
        "No address associated",
        "Name does not resolve",
        "nodename nor servname",
        "No such host",
    ]
    .iter()
    .any(|words| error.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: C-H20
    #[test]
    fn an_outage_is_not_a_no() {
        assert!(says_no("failed to lookup address information: Name or service not known"));
        assert!(says_no("failed to lookup address information: Name does not resolve"));
        assert!(!says_no("failed to lookup address information: Temporary failure in name resolution"));
        assert!(!says_no("failed to lookup address information: Try again"));
    }
}
