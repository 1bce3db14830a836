//! `rbac.denied`: written at most once a minute per principal, so that a looping client cannot flood the chain.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mcp_core::id::{PrincipalId, TenantId};
use mcp_core::principal::Principal;
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Denials {
    last: Mutex<HashMap<(TenantId, PrincipalId), Instant>>,
}

impl Denials {
    /// Whether this denial is the first of its minute and so is to be written.
    pub(crate) fn is_first(&self, principal: &Principal) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Principals are authenticated, so there are only as many as the tenants made; still, none stays for ever.
        if last.len() >= 1024 {
            last.retain(|_, at| now.duration_since(*at) < WINDOW);
        }
        let key = (principal.tenant, principal.id);
        match last.get(&key) {
            Some(at) if now.duration_since(*at) < WINDOW => false,
            _ => {
                last.insert(key, now);
                true
            }
        }
    }
}
