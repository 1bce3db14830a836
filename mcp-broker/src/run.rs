//! The part of a call after its intent is committed: execute, write the outcome, release the result.
//!
//! It runs in a task of its own. Whatever happens to the caller, the intent gets its outcome: the task outlives a dropped
//! request, and is told to stop rather than dropped.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use mcp_core::adapter::Route;
use mcp_core::audit::{AuditSink, Receipt};
use mcp_core::error::{AdapterError, CallError};
use mcp_core::id::CorrelationId;
use mcp_core::limit::Allowance;
use mcp_core::mcp::CallToolResult;
use mcp_core::policy::PermittedCall;
use mcp_core::principal::Principal;
use mcp_core::secret::SecretProvider;
use mcp_core::stream::{CallEventKind, CallStreams};
use mcp_core::tool::{ToolName, ToolOutput, budget};
use serde_json::json;
use tokio::sync::oneshot;

use crate::cache::{Answer, InventoryCache, Key};
use crate::cancel::{Cancel, CancelReason};
use crate::in_flight::Slot;
use crate::record::{CallRecord, Ended, receipt_text};

/// The one deadline of an upstream call, reading its credential and all retries included.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// How a call ended.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// The call.
    pub correlation: CorrelationId,
    /// The output, or why there is none. An output is here only if its outcome row is committed.
    pub result: Result<ToolOutput, CallError>,
    /// The receipt of the outcome row; absent when it could not be committed in time (the writer still owes it).
    pub receipt: Option<Receipt>,
}

/// A call that has left the building. Dropping it stops the call, unless it was detached.
#[derive(Debug)]
pub struct RunningCall {
    /// The call.
    pub correlation: CorrelationId,
    /// The receipt of the committed intent.
    pub intent: Receipt,
    /// What the rate limiter left.
    pub allowance: Allowance,
    cancel: Option<Cancel>,
    finished: oneshot::Receiver<FinishedCall>,
}

impl RunningCall {
    pub(crate) fn new(
        correlation: CorrelationId,
        intent: Receipt,
        allowance: Allowance,
        cancel: Cancel,
        finished: oneshot::Receiver<FinishedCall>,
    ) -> Self {
        Self { correlation, intent, allowance, cancel: Some(cancel), finished }
    }

    /// Waits for the end. Dropping this future stops the call within a second and closes its intent.
    pub async fn wait(mut self) -> FinishedCall {
        let correlation = self.correlation;
        let finished = (&mut self.finished).await;
        self.cancel = None;
        // The sender goes away unsent only when the runtime itself is being torn down.
        finished.unwrap_or(FinishedCall { correlation, result: Err(CallError::ShuttingDown), receipt: None })
    }

    /// Lets the call run on its own: from here on its stream decides when to stop it.
    pub fn detach(mut self) {
        self.cancel = None;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel(CancelReason::CallerLeft);
        }
    }
}

/// Everything that the task of one call owns.
pub(crate) struct Run {
    pub(crate) record: CallRecord,
    pub(crate) principal: Arc<Principal>,
    pub(crate) route: Route,
    pub(crate) call: PermittedCall,
    pub(crate) slot: Slot,
    pub(crate) cancel: Cancel,
    pub(crate) audit: Arc<dyn AuditSink>,
    pub(crate) secrets: Arc<dyn SecretProvider>,
    pub(crate) streams: Option<Arc<dyn CallStreams>>,
    pub(crate) cache: Arc<InventoryCache>,
}

impl Run {
    /// Runs the call to its end.
    pub(crate) async fn execute(self) -> FinishedCall {
        let Self { record, principal, route, call, slot, cancel, audit, secrets, streams, cache } = self;
        let (correlation, tool, target) = (record.correlation, call.tool(), route.target.clone());
        let started = Instant::now();
        let (result, cancelled) = reach_upstream(&route, call, secrets.as_ref(), &cache, &cancel).await;
        let took = started.elapsed();
        drop(slot);

        let cached = result.as_ref().is_ok_and(|answer| answer.cached);
        let result = result.map(|answer| answer.output);
        let ended = Ended { result: result.as_ref(), cancelled, cached, took };
        let outcome = record.outcome(&principal, tool, &target, &ended);
        let committed = audit.append(outcome).await;
        if result == Err(CallError::Adapter(AdapterError::RejectedByAgent)) {
            let rejected = record.rejected_by_agent(&principal, tool, &target);
            if let Err(error) = audit.append(rejected).await {
                tracing::error!(call.id = %correlation, %error, "a rejection by an agent was not written down");
            }
        }
        let (result, receipt) = match committed {
            Ok(receipt) => (result, Some(receipt)),
            // INV-4: a result whose outcome row is not committed is not released.
            Err(error) => {
                tracing::error!(call.id = %correlation, %error, "a result was withheld: its outcome is not written");
                (Err(CallError::AuditUnavailable), None)
            }
        };
        measure(tool, &result, took);
        if let Some(streams) = streams {
            publish(streams.as_ref(), correlation, &result, receipt, took).await;
        }
        FinishedCall { correlation, result, receipt }
    }
}

async fn reach_upstream(
    route: &Route,
    call: PermittedCall,
    secrets: &dyn SecretProvider,
    cache: &InventoryCache,
    cancel: &Cancel,
) -> (Result<Answer, CallError>, Option<CancelReason>) {
    let tenant = route.target.tenant;
    let key = Key::of(route, call.tool(), call.args());
    let fetch = async {
        let credential = match &route.credential {
            Some(reference) => {
                Some(secrets.get(tenant, reference).await.map_err(|_| CallError::SecretUnavailable)?)
            }
            None => None,
        };
        route.adapter.execute(call, credential).await.map_err(CallError::from)
    };
    let work = async {
        match key {
            Some(key) => cache.get(key, fetch).await,
            None => fetch.await.map(|output| Answer { output, cached: false }),
        }
    };
    // A panic in an adapter is that call's failure, not the broker's end.
    let work = AssertUnwindSafe(tokio::time::timeout(CALL_DEADLINE, work)).catch_unwind();
    tokio::select! {
        biased;
        reason = cancel.cancelled() => {
            let error = match reason {
                CancelReason::Shutdown => CallError::ShuttingDown,
                CancelReason::CallerLeft
                | CancelReason::StreamNotOpened
                | CancelReason::StreamAbandoned
                | CancelReason::StreamExpired => CallError::Cancelled,
            };
            (Err(error), Some(reason))
        }
        result = work => {
            let result = match result {
                Ok(Ok(result)) => result,
                Ok(Err(_elapsed)) => Err(CallError::Adapter(AdapterError::Timeout)),
                Err(_panic) => {
                    tracing::error!(tenant.id = %tenant, "an adapter panicked");
                    Err(CallError::Internal)
                }
            };
            (result, None)
        }
    }
}

async fn publish(
    streams: &dyn CallStreams,
    correlation: CorrelationId,
    result: &Result<ToolOutput, CallError>,
    receipt: Option<Receipt>,
    took: Duration,
) {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match result {
        Ok(output) => {
            let result = CallToolResult::fitting(output.clone(), budget::REST_BYTES);
            let result = serde_json::to_string(&result).unwrap_or_default();
            streams.publish(correlation, CallEventKind::ToolResult, result).await;
            let done = json!({
                "correlationId": correlation, "durationMs": duration_ms, "receipt": receipt_text(receipt),
            });
            streams.publish(correlation, CallEventKind::Done, done.to_string()).await;
        }
        Err(error) => {
            let mut data = error.details();
            data.insert("error".to_owned(), json!(error.code().as_str()));
            data.insert("message".to_owned(), json!(error.message()));
            data.insert("content".to_owned(), json!(CallToolResult::failure(error).content));
            data.insert("isError".to_owned(), json!(true));
            data.insert("receipt".to_owned(), receipt_text(receipt));
            let data = serde_json::Value::Object(data).to_string();
            streams.publish(correlation, CallEventKind::Error, data).await;
        }
    }
}

fn measure(tool: ToolName, result: &Result<ToolOutput, CallError>, took: Duration) {
    let code = result.as_ref().map_or_else(|error| error.code().as_str(), |_| "ok");
    metrics::counter!("coreci_calls_total", "tool" => tool.as_str(), "result" => code).increment(1);
    metrics::histogram!("coreci_call_seconds", "tool" => tool.as_str()).record(took.as_secs_f64());
}
