//! The one gate that every call passes, whichever door it came in by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::adapter::{AdapterDirectory, DirectoryError, Route, Target};
use mcp_core::audit::{AuditEvent, AuditSink, Receipt};
use mcp_core::error::{CallError, Candidate};
use mcp_core::id::{CorrelationId, InstanceId, PrincipalId, TenantId};
use mcp_core::limit::{Allowance, RateLimiter};
use mcp_core::policy::{Permit, Screen, authorize, decide};
use mcp_core::principal::{Action, Principal};
use mcp_core::secret::SecretProvider;
use mcp_core::stream::{CallStreams, StreamOwner};
use mcp_core::tool::{ToolDefinition, ToolName, catalogue};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use ulid::Ulid;

use crate::cache::InventoryCache;
use crate::cancel::{Cancel, CancelReason};
use crate::in_flight::{DEFAULT_IN_FLIGHT_LIMIT, InFlight, Slot};
use crate::once::OncePerMinute;
use crate::record::{CallRecord, rbac_denied};
use crate::registry::Registry;
use crate::run::{FinishedCall, Run, RunningCall};

/// Most targets that are looked through to name a caller's own.
const MOST_TARGETS: u32 = 500;

/// What the pipeline needs from the world. [`crate::memory`] has an implementation of each.
#[derive(Clone)]
pub struct Ports {
    /// Keeps the audit log.
    pub audit: Arc<dyn AuditSink>,
    /// Limits the rate.
    pub limiter: Arc<dyn RateLimiter>,
    /// Knows targets and tool policies.
    pub directory: Arc<dyn AdapterDirectory>,
    /// Lends credentials.
    pub secrets: Arc<dyn SecretProvider>,
    /// Buffers and replays events.
    pub streams: Arc<dyn CallStreams>,
}

/// One call, as a door understood it.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The authenticated caller.
    pub principal: Arc<Principal>,
    /// The tool's name in either spelling, as it came.
    pub tool: String,
    /// Id or name of the target, when the door has a place for it outside the arguments.
    pub target: Option<String>,
    /// The arguments. `target_id` among them counts as [`CallRequest::target`].
    pub args: Map<String, Value>,
}

/// Whether the events of a call go to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// Buffered for the invoking principal, who attaches by correlation id.
    Buffered,
    /// Not at all: the caller waits.
    None,
}

/// Builds a [`Broker`].
pub struct BrokerBuilder {
    ports: Ports,
    instance: InstanceId,
    in_flight: usize,
    screens: BTreeMap<ToolName, Arc<dyn Screen>>,
}

/// The broker cannot be built as wired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool {0} has no usable schema, or needs a screen and was given none")]
pub struct BuildError(ToolName);

impl BrokerBuilder {
    /// Sets how many calls one tenant may have in flight.
    #[must_use]
    pub fn in_flight_limit(mut self, limit: usize) -> Self {
        self.in_flight = limit;
        self
    }

    /// Sets the screen of a tool: arguments it refuses are `command_not_whitelisted`.
    #[must_use]
    pub fn screen(mut self, tool: ToolName, screen: Arc<dyn Screen>) -> Self {
        self.screens.insert(tool, screen);
        self
    }

    /// Builds the broker.
    ///
    /// # Errors
    /// [`BuildError`] when a tool that needs a screen has none.
    pub fn build(self) -> Result<Broker, BuildError> {
        Ok(Broker {
            ports: self.ports,
            instance: self.instance,
            registry: Registry::new(self.screens).map_err(BuildError)?,
            in_flight: InFlight::new(self.in_flight),
            denials: OncePerMinute::default(),
            cache: Arc::default(),
            tasks: TaskTracker::new(),
            stop: Cancel::default(),
        })
    }
}

/// The pipeline of SPEC §4. Cheap to share behind an [`Arc`].
pub struct Broker {
    ports: Ports,
    instance: InstanceId,
    registry: Registry,
    in_flight: InFlight,
    denials: OncePerMinute<(TenantId, PrincipalId)>,
    cache: Arc<InventoryCache>,
    tasks: TaskTracker,
    stop: Cancel,
}

impl Broker {
    /// Starts building a broker. `instance` names this run of the program in every intent it writes.
    #[must_use]
    pub fn builder(ports: Ports, instance: InstanceId) -> BrokerBuilder {
        BrokerBuilder { ports, instance, in_flight: DEFAULT_IN_FLIGHT_LIMIT, screens: BTreeMap::new() }
    }

    /// The call streams, for the door that serves them.
    #[must_use]
    pub fn streams(&self) -> &Arc<dyn CallStreams> {
        &self.ports.streams
    }

    /// The tools that this caller may call right now, in the registry's order.
    ///
    /// # Errors
    /// [`CallError::DatabaseUnavailable`] when the tenant's policy cannot be read.
    pub async fn tools(&self, principal: &Principal) -> Result<Vec<&'static ToolDefinition>, CallError> {
        let policy = self.tool_policy(principal.tenant).await?;
        let callable =
            |tool: &&ToolDefinition| policy.allows(tool.name) && principal.grants.cover_tool(tool.name);
        Ok(catalogue().iter().filter(callable).collect())
    }

    /// The tools of [`Broker::tools`] if this caller may invoke any, in the registry's order: the list of doors that show
    /// exactly what can be called.
    ///
    /// # Errors
    /// As [`Broker::tools`].
    pub async fn callable_tools(
        &self,
        principal: &Principal,
    ) -> Result<Vec<&'static ToolDefinition>, CallError> {
        if principal.grants.cover_action(Action::ToolsInvoke) {
            self.tools(principal).await
        } else {
            Ok(Vec::new())
        }
    }

    /// The targets that lie within the caller's grants, by name; those of very large tenants not all.
    ///
    /// # Errors
    /// [`CallError::DatabaseUnavailable`] when they cannot be read.
    pub async fn targets(&self, principal: &Principal) -> Result<Vec<Target>, CallError> {
        let targets = self.ports.directory.targets(principal.tenant, MOST_TARGETS).await;
        let mut targets = targets.map_err(|error| unreadable(principal.tenant, &error))?;
        targets.retain(|target| principal.grants.cover_target(target.id));
        Ok(targets)
    }

    /// Writes down that a message's headers named another method or tool than its body. It costs a token like any call,
    /// and without one it is only counted.
    pub async fn refuse_mismatch(&self, principal: &Principal, tool: &str) {
        if self.take_token(principal).await.is_err() {
            return;
        }
        let record =
            CallRecord { correlation: CorrelationId::from_ulid(Ulid::generate()), instance: self.instance };
        metrics::counter!("coreci_calls_refused_total", "code" => "header_mismatch").increment(1);
        // Nothing is called either way; the failed write has been logged and counted.
        let _ = self.append(record.mismatch(principal, tool)).await;
    }

    /// Runs a call to its end: [`Broker::start`], then [`RunningCall::wait`].
    ///
    /// # Errors
    /// As [`Broker::start`]; what happens after the intent is in [`FinishedCall::result`].
    pub async fn call(&self, request: CallRequest) -> Result<FinishedCall, CallError> {
        Ok(self.start(request, StreamMode::None).await?.wait().await)
    }

    /// Takes a call through every stage up to its committed intent, and sets it running.
    ///
    /// This is the one place where the order of the stages stands: role, limits, registry with policy and blocklist,
    /// schema, route, intent. A call refused at one stage never reaches the next. Authentication is the door's: a
    /// [`Principal`] is its evidence.
    ///
    /// # Errors
    /// The refusal. It is in the audit log by then, as SPEC §4 says; when it could not be written, the error is
    /// [`CallError::AuditUnavailable`] instead.
    ///
    /// # Cancellation
    /// Dropping the future before it resolves leaves no call running and no intent without an outcome.
    pub async fn start(&self, request: CallRequest, mode: StreamMode) -> Result<RunningCall, CallError> {
        if self.tasks.is_closed() {
            return Err(CallError::ShuttingDown);
        }
        let CallRequest { principal, tool, target, mut args } = request;
        let record =
            CallRecord { correlation: CorrelationId::from_ulid(Ulid::generate()), instance: self.instance };

        let authorized = match authorize(Arc::clone(&principal), Action::ToolsInvoke) {
            Ok(authorized) => authorized,
            Err(error) => {
                self.deny(&principal, Action::ToolsInvoke).await?;
                return Err(error);
            }
        };
        let (allowance, slot) = self.admit(&principal).await?;
        let policy = self.tool_policy(principal.tenant).await?;

        let decided = async {
            let target = take_target(target, &mut args)?;
            let permit = decide(authorized, &tool, args, &policy, self.registry.screen(&tool))?;
            self.registry.check_arguments(permit.tool(), permit.args())?;
            let route = self.route(&permit, target.as_deref()).await?;
            route.adapter.ready(&route.target)?;
            Ok((permit, route))
        };
        let (permit, route) = match decided.await {
            Ok(decided) => decided,
            Err(error) => return Err(self.refuse(&record, &principal, &tool, error).await),
        };

        let intent = self.append(record.intent(&permit, &route.target)).await?;
        // No await between the committed intent and the task that owes its outcome.
        let call = permit.bind(record.correlation, route.target.clone(), intent)?;
        let cancel = Cancel::default();
        let run = Run {
            record,
            principal,
            route,
            call,
            slot,
            cancel: cancel.clone(),
            audit: Arc::clone(&self.ports.audit),
            secrets: Arc::clone(&self.ports.secrets),
            cache: Arc::clone(&self.cache),
            streams: (mode == StreamMode::Buffered).then(|| Arc::clone(&self.ports.streams)),
        };
        Ok(self.spawn(run, intent, allowance, cancel).await)
    }

    /// Writes `rbac.denied`, at most once a minute per principal. For doors whose own routes need an action.
    ///
    /// # Errors
    /// [`CallError::AuditUnavailable`] when it cannot be written.
    pub async fn deny(&self, principal: &Principal, action: Action) -> Result<(), CallError> {
        if self.denials.is_first((principal.tenant, principal.id)) {
            self.append(rbac_denied(principal, action)).await?;
        }
        Ok(())
    }

    /// Takes one token of the caller and one of its tenant, for routes that cost as much as a call.
    ///
    /// # Errors
    /// [`CallError::RateLimited`].
    pub async fn take_token(&self, principal: &Principal) -> Result<Allowance, CallError> {
        self.ports.limiter.take(principal.tenant, principal.id).await.map_err(|limited| {
            metrics::counter!("coreci_rate_limited_total").increment(1);
            tracing::warn!(tenant.id = %principal.tenant, principal.id = %principal.id, "a call was rate limited");
            CallError::RateLimited { retry_after_sec: limited.retry_after_sec }
        })
    }

    /// Takes no more calls, gives the running ones `grace` to end, then stops the rest as `interrupted`. Returns when
    /// every outcome has been handed to the audit log.
    pub async fn shutdown(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.stop.cancel(CancelReason::Shutdown);
            self.tasks.wait().await;
        }
    }

    async fn admit(&self, principal: &Principal) -> Result<(Allowance, Slot), CallError> {
        let allowance = self.take_token(principal).await?;
        let limit = self.in_flight.limit();
        let slot = self.in_flight.enter(principal.tenant).ok_or(CallError::InFlightLimit { limit })?;
        Ok((allowance, slot))
    }

    async fn tool_policy(&self, tenant: TenantId) -> Result<mcp_core::policy::ToolPolicy, CallError> {
        self.ports.directory.tool_policy(tenant).await.map_err(|error| unreadable(tenant, &error))
    }

    /// One match is used; none is 404; several are 409 with the candidates. Targets outside the grants are not there.
    async fn route(&self, permit: &Permit, wanted: Option<&str>) -> Result<Route, CallError> {
        let tenant = permit.principal().tenant;
        let found = self.ports.directory.routes(tenant, permit.tool().kind(), wanted).await;
        let mut routes = found.map_err(|error| unreadable(tenant, &error))?;
        routes.retain(|route| permit.covers(&route.target));
        match routes.len() {
            0 => Err(CallError::TargetNotFound),
            1 => Ok(routes.remove(0)),
            _ => {
                let candidates = routes.into_iter().map(|route| route.target);
                let candidates = candidates.map(|target| Candidate { id: target.id, name: target.name });
                Err(CallError::AmbiguousTarget(candidates.collect()))
            }
        }
    }

    async fn refuse(
        &self,
        record: &CallRecord,
        principal: &Principal,
        tool: &str,
        error: CallError,
    ) -> CallError {
        metrics::counter!("coreci_calls_refused_total", "code" => error.code().as_str()).increment(1);
        match record.refusal(principal, tool, &error) {
            Some(event) => self.append(event).await.err().unwrap_or(error),
            None => error,
        }
    }

    async fn append(&self, event: AuditEvent) -> Result<Receipt, CallError> {
        let event_type = event.event_type;
        self.ports.audit.append(event).await.map_err(|error| {
            tracing::error!(event.type = %event_type, %error, "an audit event was not written");
            CallError::AuditUnavailable
        })
    }

    async fn spawn(&self, run: Run, intent: Receipt, allowance: Allowance, cancel: Cancel) -> RunningCall {
        let correlation = run.record.correlation;
        let owner = StreamOwner { tenant: run.principal.tenant, principal: run.principal.id };
        let (send_finished, finished) = oneshot::channel();
        let (send_open, open) = oneshot::channel();
        let (stop_all, stop_one) = (self.stop.clone(), cancel.clone());
        self.tasks.spawn(async move {
            if let Some(streams) = &run.streams {
                let cancel = run.cancel.clone();
                streams.open(correlation, owner, Arc::new(move |reason| cancel.cancel(reason.into()))).await;
            }
            let _ = send_open.send(());
            let end = run.execute();
            tokio::pin!(end);
            let finished = tokio::select! {
                finished = &mut end => finished,
                reason = stop_all.cancelled() => {
                    stop_one.cancel(reason);
                    end.await
                }
            };
            // Nobody waits for a detached call.
            let _ = send_finished.send(finished);
        });
        let running = RunningCall::new(correlation, intent, allowance, cancel, finished);
        // The stream is open before the caller learns its address. If this future is dropped here, so is `running`,
        // which stops the call.
        let _ = open.await;
        running
    }
}

fn unreadable(tenant: TenantId, error: &DirectoryError) -> CallError {
    tracing::error!(tenant.id = %tenant, error = %error.0, "a tenant's targets or tool policy cannot be read");
    CallError::DatabaseUnavailable
}

/// The target may stand beside the arguments or among them, but not as two different things.
fn take_target(beside: Option<String>, args: &mut Map<String, Value>) -> Result<Option<String>, CallError> {
    let among = match args.get("target_id") {
        // Anything but a text stays where it is, for the schema to name.
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) | None => None,
    };
    match (beside, among) {
        (Some(beside), Some(among)) if beside != among => Err(CallError::InvalidArguments {
            field: "target_id".to_owned(),
            message: "target_id stands beside the arguments and among them with different values".to_owned(),
        }),
        (beside, among) => Ok(beside.or(among)),
    }
}
