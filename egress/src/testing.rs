//! A fake upstream that can misbehave, and fake resolvers. For tests: it panics where a test should.

mod reply;
mod resolvers;
mod server;

use std::sync::Arc;

pub use reply::Reply;
pub use resolvers::{FlippingResolver, SlowResolver, StaticResolver};
pub use server::{FakeServer, Seen};

use crate::policy::{EgressPolicy, Mode};

/// The policy for a [`FakeServer`]: loopback, any port, plain HTTP.
pub fn loopback_policy() -> Arc<EgressPolicy> {
    Arc::new(EgressPolicy {
        mode: Mode::SelfHosted,
        allow_http: true,
        allow_loopback: true,
        ports: (1..=u16::MAX).collect(),
        ..EgressPolicy::default()
    })
}
