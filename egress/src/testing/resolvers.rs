//! Resolvers that say what a test wants.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use crate::resolver::{ResolveError, Resolver};

/// Gives the same answer to every name, and counts.
#[derive(Debug)]
pub struct StaticResolver {
    answer: Result<Vec<IpAddr>, ResolveError>,
    asked: AtomicUsize,
}

impl StaticResolver {
    /// Every name has these addresses.
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { answer: Ok(addresses.into_iter().collect()), asked: AtomicUsize::new(0) }
    }

    /// Every name is at 127.0.0.1.
    pub fn loopback() -> Self {
        Self::new([IpAddr::from([127, 0, 0, 1])])
    }

    /// No name is found.
    pub fn failing(error: ResolveError) -> Self {
        Self { answer: Err(error), asked: AtomicUsize::new(0) }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolver for StaticResolver {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer.clone()
    }
}

/// Gives one answer after the other, and the last for ever: a name with a time to live of 0, as an attacker sets it.
#[derive(Debug)]
pub struct FlippingResolver {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl FlippingResolver {
    /// Answers in this order.
    pub fn new(answers: impl IntoIterator<Item = Vec<IpAddr>>) -> Self {
        Self { answers: answers.into_iter().collect(), asked: AtomicUsize::new(0) }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolver for FlippingResolver {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        self.answers.get(turn).or(self.answers.last()).cloned().ok_or(ResolveError::NotFound)
    }
}

/// Does not answer before its time.
#[derive(Debug)]
pub struct SlowResolver(pub Duration);

#[async_trait]
impl Resolver for SlowResolver {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        tokio::time::sleep(self.0).await;
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}
