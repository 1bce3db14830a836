//! The cap on calls that one tenant has in flight, so that one tenant's slow upstream starves nobody else (C-E10).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_core::id::TenantId;

/// Calls that one tenant may have in flight, unless configured otherwise.
pub const DEFAULT_IN_FLIGHT_LIMIT: usize = 32;

#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    limit: usize,
    counts: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// A place among the tenant's calls in flight; dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Slot {
    tenant: TenantId,
    counts: Arc<Mutex<HashMap<TenantId, usize>>>,
}

impl InFlight {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn enter(&self, tenant: TenantId) -> Option<Slot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(tenant).or_insert(0);
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Slot { tenant, counts: Arc::clone(&self.counts) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            // An idle tenant leaves no entry behind, so the map is bounded by the calls that run.
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    // proves: C-E10
    #[test]
    fn a_full_tenant_waits_and_another_does_not() {
        let in_flight = InFlight::new(2);
        let (a, b) = (TenantId::from_uuid(Uuid::from_u128(1)), TenantId::from_uuid(Uuid::from_u128(2)));
        let first = in_flight.enter(a);
        let second = in_flight.enter(a);

        assert!(first.is_some() && second.is_some());
        assert!(in_flight.enter(a).is_none());
        assert!(in_flight.enter(b).is_some());
        drop(first);
        assert!(in_flight.enter(a).is_some());
        drop(second);
        assert!(in_flight.counts.lock().expect("lock").is_empty());
    }
}
