//! Two token buckets per call: the principal's and its tenant's, taken from together or not at all.
//!
//! Each bucket is governor's GCRA over a state cell of ours. Checking both and then taking happens under one lock per
//! tenant, so a token can neither be lost (the principal's is put back when the tenant's bucket is empty) nor be made.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use governor::clock::{Clock, DefaultClock, Reference};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter as Gcra};
use mcp_core::id::{PrincipalId, TenantId};
use mcp_core::limit::{Allowance, RateLimited, RateLimiter};

/// How often idle buckets are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5 * 60);
/// After how long an unused bucket is dropped. A bucket refills within a minute, so a dropped one was full.
const IDLE_AFTER: Duration = Duration::from_secs(10 * 60);

/// Calls per minute. A bucket holds a minute's worth and refills evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Per principal.
    pub user_per_min: NonZeroU32,
    /// Per tenant, over all its principals.
    pub tenant_per_min: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            user_per_min: NonZeroU32::new(60).expect("60 is not zero"),
            tenant_per_min: NonZeroU32::new(300).expect("300 is not zero"),
        }
    }
}

/// Limits the rate within one process.
#[derive(Debug)]
pub struct MemoryLimiter<C: Clock + Clone = DefaultClock> {
    clock: C,
    limits: Limits,
    tenants: Mutex<Tenants<C>>,
}

#[derive(Debug)]
struct Tenants<C: Clock + Clone> {
    buckets: HashMap<TenantId, Arc<Mutex<TenantBuckets<C>>>>,
    swept_at: C::Instant,
}

#[derive(Debug)]
struct TenantBuckets<C: Clock + Clone> {
    tenant: Bucket<C>,
    users: HashMap<PrincipalId, Bucket<C>>,
}

type Limiter<C> = Gcra<NotKeyed, Cell, C, StateInformationMiddleware>;

#[derive(Debug)]
struct Bucket<C: Clock + Clone> {
    limiter: Limiter<C>,
    cell: Cell,
    used_at: C::Instant,
}

/// The state of one bucket. Governor keeps it atomically; ours can also be put back.
#[derive(Debug, Clone, Default)]
struct Cell(Arc<Mutex<Option<Nanos>>>);

impl StateStore for Cell {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (outcome, next) = f(*state)?;
        *state = Some(next);
        Ok(outcome)
    }
}

impl Cell {
    fn get(&self) -> Option<Nanos> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: Option<Nanos>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl MemoryLimiter {
    /// A limiter on the system's monotonic clock.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_clock(limits, DefaultClock::default())
    }
}

impl<C: Clock + Clone> MemoryLimiter<C> {
    /// A limiter on another clock, for tests.
    #[must_use]
    pub fn with_clock(limits: Limits, clock: C) -> Self {
        let swept_at = clock.now();
        let tenants = Mutex::new(Tenants { buckets: HashMap::new(), swept_at });
        Self { clock, limits, tenants }
    }

    fn take_now(&self, tenant: TenantId, principal: PrincipalId) -> Result<Allowance, RateLimited> {
        let buckets = self.buckets_of(tenant);
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let limit = self.limits.user_per_min;
        let user = buckets.users.entry(principal).or_insert_with(|| Bucket::new(limit, &self.clock));
        let before = user.cell.get();
        let left = user.take(now, &self.clock)?.remaining;
        let user_cell = user.cell.clone();
        if let Err(limited) = buckets.tenant.take(now, &self.clock) {
            user_cell.set(before);
            return Err(limited);
        }
        Ok(Allowance { limit: limit.get(), remaining: left })
    }

    fn buckets_of(&self, tenant: TenantId) -> Arc<Mutex<TenantBuckets<C>>> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        if Duration::from(now.duration_since(tenants.swept_at)) >= SWEEP_EVERY {
            tenants.sweep(now);
        }
        let limit = self.limits.tenant_per_min;
        let fresh = || TenantBuckets { tenant: Bucket::new(limit, &self.clock), users: HashMap::new() };
        Arc::clone(tenants.buckets.entry(tenant).or_insert_with(|| Arc::new(Mutex::new(fresh()))))
    }
}

impl<C: Clock + Clone> Tenants<C> {
    fn sweep(&mut self, now: C::Instant) {
        self.swept_at = now;
        self.buckets.retain(|_, buckets| {
            let in_use = Arc::strong_count(buckets) > 1;
            let mut held = buckets.lock().unwrap_or_else(PoisonError::into_inner);
            held.users.retain(|_, user| !user.is_idle(now));
            in_use || !held.users.is_empty() || !held.tenant.is_idle(now)
        });
    }
}

impl<C: Clock + Clone> Bucket<C> {
    fn new(per_minute: NonZeroU32, clock: &C) -> Self {
        let cell = Cell::default();
        let limiter = Limiter::new(Quota::per_minute(per_minute), cell.clone(), clock.clone());
        Self { limiter, cell, used_at: clock.now() }
    }

    fn take(&mut self, now: C::Instant, clock: &C) -> Result<Allowance, RateLimited> {
        self.used_at = now;
        match self.limiter.check() {
            Ok(snapshot) => Ok(Allowance {
                limit: snapshot.quota().burst_size().get(),
                remaining: snapshot.remaining_burst_capacity(),
            }),
            Err(not_until) => {
                let wait = not_until.wait_time_from(clock.now());
                let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                Err(RateLimited { retry_after_sec: whole.max(1) })
            }
        }
    }

    fn is_idle(&self, now: C::Instant) -> bool {
        Duration::from(now.duration_since(self.used_at)) > IDLE_AFTER
    }
}

#[async_trait]
impl<C: Clock + Clone + Send + Sync> RateLimiter for MemoryLimiter<C>
where
    C::Instant: Send + Sync,
{
    async fn take(&self, tenant: TenantId, principal: PrincipalId) -> Result<Allowance, RateLimited> {
        self.take_now(tenant, principal)
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn tenant(n: u128) -> TenantId {
        TenantId::from_uuid(Uuid::from_u128(n))
    }

    fn user(n: u128) -> PrincipalId {
        PrincipalId::from_uuid(Uuid::from_u128(n))
    }

    fn limiter() -> (MemoryLimiter<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (MemoryLimiter::with_clock(Limits::default(), clock.clone()), clock)
    }

    // proves: B-06, C-E01, RT-16
    #[test]
    fn sixty_pass_and_the_next_waits_a_second() {
        let (limiter, clock) = limiter();
        for left in (0..60).rev() {
            let allowance = limiter.take_now(tenant(1), user(1)).expect("within the limit");
            assert_eq!(allowance, Allowance { limit: 60, remaining: left });
        }
        assert_eq!(limiter.take_now(tenant(1), user(1)), Err(RateLimited { retry_after_sec: 1 }));
        clock.advance(Duration::from_secs(1));
        assert!(limiter.take_now(tenant(1), user(1)).is_ok());
        assert!(limiter.take_now(tenant(1), user(1)).is_err());
    }

    // proves: B-07, C-E03
    #[test]
    fn an_empty_tenant_bucket_costs_the_principal_nothing() {
        let (limiter, clock) = limiter();
        for n in 0..300 {
            limiter.take_now(tenant(1), user(n % 10)).expect("300 fit into the tenant's bucket");
        }
        // A principal that has not asked yet meets an empty tenant bucket, over and over.
        for _ in 0..100 {
            assert!(limiter.take_now(tenant(1), user(99)).is_err());
        }
        // Ten seconds refill 50 for the tenant; the newcomer's own 60 are still all there.
        clock.advance(Duration::from_secs(10));
        let passed = (0..100).filter(|_| limiter.take_now(tenant(1), user(99)).is_ok()).count();
        assert_eq!(passed, 50);
    }

    // proves: C-E02
    #[test]
    fn exactly_sixty_pass_under_threads() {
        let (limiter, _) = limiter();
        let passed = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        if limiter.take_now(tenant(1), user(1)).is_ok() {
                            passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 60);
    }

    // proves: B-10, C-E05
    #[test]
    fn idle_buckets_are_dropped() {
        let (limiter, clock) = limiter();
        for n in 0..1000 {
            let _ = limiter.take_now(tenant(n), user(n));
        }
        clock.advance(IDLE_AFTER + Duration::from_secs(1));
        let _ = limiter.take_now(tenant(1), user(1));
        assert_eq!(limiter.tenants.lock().expect("lock").buckets.len(), 1);
    }

    /// The two buckets in whole numbers: what must come out, written down a second time in the simplest way.
    struct Model {
        user: [f64; 3],
        tenant: f64,
    }

    impl Model {
        fn advance(&mut self, seconds: u64) {
            let seconds = seconds as f64;
            self.user.iter_mut().for_each(|tokens| *tokens = (*tokens + seconds).min(60.0));
            self.tenant = (self.tenant + 5.0 * seconds).min(300.0);
        }

        fn take(&mut self, user: usize) -> bool {
            let fits = self.user[user] >= 1.0 && self.tenant >= 1.0;
            if fits {
                self.user[user] -= 1.0;
                self.tenant -= 1.0;
            }
            fits
        }
    }

    proptest! {
        // proves: B-06
        #[test]
        fn no_token_is_lost_or_made(steps in prop::collection::vec((0_u64..4, 0_usize..3, 1_usize..90), 1..40)) {
            let (limiter, clock) = limiter();
            let mut model = Model { user: [60.0; 3], tenant: 300.0 };
            for (seconds, who, calls) in steps {
                clock.advance(Duration::from_secs(seconds));
                model.advance(seconds);
                for _ in 0..calls {
                    let passed = limiter.take_now(tenant(1), user(who as u128)).is_ok();
                    prop_assert_eq!(passed, model.take(who));
                }
            }
        }
    }
}
