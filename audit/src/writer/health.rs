//! Whether the log can be written, as far as the actors have seen.

use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Failure;

/// How the writer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Every actor is connected and its last transaction succeeded.
    pub writable: bool,
    /// Events that wait to be written.
    pub queued: usize,
    /// What went wrong last, for an operator's eyes; it stays after the writer has recovered.
    pub last_error: Option<String>,
}

/// The health of one actor.
#[derive(Debug)]
pub(crate) struct ActorHealth {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writable: bool,
    last_error: Option<String>,
}

impl ActorHealth {
    pub(crate) fn new(name: String) -> Arc<Self> {
        Arc::new(Self { name, state: Mutex::default() })
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.writable {
            state.writable = true;
            drop(state);
            self.gauge(1.0);
            tracing::info!(audit.actor = self.name, "the audit log is writable");
        }
    }

    /// Counts and tells. This is the alert (AU-04): whoever watches the log or the metric learns of it at once.
    pub(crate) fn failed(&self, failure: &Failure) {
        metrics::counter!("audit_write_failures_total", "reason" => failure.reason()).increment(1);
        tracing::error!(audit.actor = self.name, error = %failure, "the audit log could not be written");
        self.gauge(0.0);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.writable = false;
        state.last_error = Some(failure.to_string());
    }

    pub(crate) fn stopped(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).writable = false;
    }

    fn gauge(&self, writable: f64) {
        metrics::gauge!("audit_writable", "actor" => self.name.clone()).set(writable);
    }

    pub(crate) fn add_to(&self, health: &mut Health) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        health.writable &= state.writable;
        if state.last_error.is_some() {
            health.last_error.clone_from(&state.last_error);
        }
    }
}
