//! Everything wired together: `Config → App → run(shutdown)`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adapter_ssh::whitelist::CommandScreen;
use adapter_ssh::{Hub, SshAdapter};
use anyhow::Context as _;
use audit::lease::{InstanceLease, LeaseError};
use audit::sweeper::{SweepError, sweep};
use audit::{AuditConfig, PostgresAudit};
use egress::{EgressPolicy, SystemResolver};
use http_api::{
    Adapters, Api, ApiSettings, CursorKey, Server, ServerLimits, ServerTls, TlsFileError, internal_router,
    public_router,
};
use identity::Authenticator;
use identity::oauth::TokenVerifier;
use mcp_broker::memory::{MemoryLimiter, MemoryStreams};
use mcp_broker::transport::BrokerTools;
use mcp_broker::transport::http::McpEndpoint;
use mcp_broker::{Broker, BuildError, OncePerMinute, Ports};
use mcp_core::id::InstanceId;
use mcp_core::tool::ToolName;
use metrics_exporter_prometheus::{BuildError as MetricsError, PrometheusBuilder, PrometheusHandle};
use secrets::{KeyError, LocalConfig, LocalSecrets, MasterKey, OpenError};
use tenancy::connections::Connections;
use tenancy::preflight::{self, PreflightError};
use tenancy::{PoolSize, Tenancy};
use tokio::net::TcpListener;
use tokio_postgres::config::Host;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cli::{CommandError, Context};
use crate::config::{Config, ConfigError, PublicUrl};
use crate::data_dir::{DataDir, DataDirError};
use crate::database::{Database, DatabaseSource};
use crate::ports::{GuardedDocuments, GuardedFactory, PgAgents, PgDirectory, SystemReadiness};

/// Time that running calls have to end when the server goes down.
const DRAIN: Duration = Duration::from_secs(15);
/// Time for agents to be told.
const FAREWELL: Duration = Duration::from_secs(2);
/// Time for the audit writer to write what it owes.
const FLUSH: Duration = Duration::from_secs(5);
/// After what time agents are told to come back.
const AGENTS_RETURN_AFTER: Duration = Duration::from_secs(1);

/// Why the server does not start. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A listener's address cannot be had.
    #[error(
        "{address} cannot be listened on ({source}): stop what uses it, or choose another address with {flag}"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The database is not fit to serve from.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// Another replica runs.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// What an earlier run left open could not be closed.
    #[error("calls that an earlier run left open could not be closed in the audit log")]
    Sweep(#[from] SweepError),
    /// A key of this installation cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The master key cannot be used.
    #[error(transparent)]
    MasterKey(#[from] KeyError),
    /// The secret store cannot be opened.
    #[error(transparent)]
    Secrets(#[from] OpenError),
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    /// The pipeline is wired wrongly.
    #[error(transparent)]
    Broker(#[from] BuildError),
    /// Metrics cannot be collected.
    #[error("metrics cannot be collected")]
    Metrics(#[from] MetricsError),
}

/// Both addresses, bound. Done before anything else is touched: a taken port then leaves nothing behind.
pub struct Listeners {
    public: TcpListener,
    internal: TcpListener,
}

impl Listeners {
    /// Binds both.
    ///
    /// # Errors
    /// [`AppError::Listen`].
    pub async fn bind(config: &Config) -> Result<Self, AppError> {
        let public = bind(config.listen, "--listen").await?;
        let internal = bind(config.internal_listen, "--internal-listen").await?;
        Ok(Self { public, internal })
    }
}

/// A server that is ready to run. Its listeners are bound, what an earlier run left open is closed.
pub struct App {
    /// The address of the public listener.
    pub bound: SocketAddr,
    /// The public URL.
    pub public_url: PublicUrl,
    /// Tenant data, for whoever embeds the server.
    pub tenancy: Tenancy,
    /// The agents' links, likewise.
    pub hub: Arc<Hub>,
    broker: Arc<Broker>,
    audit: Arc<PostgresAudit>,
    lease: Arc<InstanceLease>,
    draining: Arc<AtomicBool>,
    public: Server,
    internal: Server,
}

impl App {
    /// Checks the database, takes the lease, and closes what an earlier run left open.
    ///
    /// # Errors
    /// [`AppError`]. Nothing half-made is left behind.
    pub async fn build(
        config: &Config,
        listeners: Listeners,
        connections: &Connections,
        data: &DataDir,
    ) -> Result<Self, AppError> {
        let bound = listeners.public.local_addr().unwrap_or(config.listen);
        let public_url = config.public_url_at(bound)?;
        let tls = match &config.tls {
            Some(files) => Some(ServerTls::load(files.clone(), public_url.host().trim_matches(['[', ']']))?),
            None => None,
        };
        // What this installation keeps to itself is looked at before anything is started that would have to be stopped.
        let secrets = Arc::new(open_secrets(data)?);
        let pseudonym_key = data.secret("pseudonym.key")?;
        let cursor_key = CursorKey::new(&data.secret("cursor.key")?);
        preflight::check(connections).await?;
        let lease = Arc::new(InstanceLease::acquire(&connections.audit).await?);

        let instance = InstanceId::from_uuid(Uuid::new_v4());
        let audit_config = AuditConfig::new(pseudonym_key, instance);
        let audit = Arc::new(PostgresAudit::start(audit_config, connections.audit.clone()));
        sweep(&audit, &lease).await?;

        let tenancy = Tenancy::connect(&connections.app, PoolSize::default());
        let agents = Arc::new(PgAgents::new(tenancy.clone(), audit.clone()));
        let hub = Hub::new(agents, audit.clone(), public_url.authority());
        let ssh = Arc::new(SshAdapter::new(Arc::clone(&hub)));
        let egress = egress_policy(config, &listeners, connections).await;
        let mut authenticator = Authenticator::new(tenancy.clone());
        if let Some(oauth) = &config.oauth {
            let documents = GuardedDocuments::new(oauth, &egress, Arc::new(SystemResolver));
            let policy = oauth.policy(format!("{}/mcp", public_url.as_str()));
            authenticator = authenticator.with_tokens(TokenVerifier::new(policy, Arc::new(documents)));
        }
        let factory = Arc::new(GuardedFactory::new(egress, Arc::new(SystemResolver)));
        let adapters = Adapters::new(tenancy.clone(), secrets.clone(), factory.clone(), audit.clone());
        let ports = Ports {
            audit: audit.clone(),
            limiter: Arc::new(MemoryLimiter::new(config.limits)),
            directory: Arc::new(PgDirectory::new(tenancy.clone(), ssh, factory)),
            secrets,
            streams: Arc::new(MemoryStreams::start()),
        };
        let broker = Broker::builder(ports, instance)
            .in_flight_limit(config.in_flight)
            .screen(ToolName::SshRunWhitelistedCommand, Arc::new(CommandScreen))
            .build()?;
        let broker = Arc::new(broker);
        let draining = Arc::new(AtomicBool::new(false));
        let readiness =
            SystemReadiness::new(tenancy.clone(), audit.clone(), Arc::clone(&lease), Arc::clone(&draining));
        let tools = BrokerTools::new(Arc::clone(&broker), config.mcp_result_bytes);
        let api = Arc::new(Api {
            broker: Arc::clone(&broker),
            mcp: McpEndpoint::new(Arc::new(tools)),
            tenancy: tenancy.clone(),
            authenticator,
            adapters,
            hub: Arc::clone(&hub),
            audit: audit.clone(),
            enroll_failures: OncePerMinute::default(),
            readiness: Arc::new(readiness),
            settings: ApiSettings {
                public_url: public_url.as_str().to_owned(),
                allowed_hosts: config.hosts(&public_url),
                allowed_origins: config.origins(&public_url)?,
                token_issuer: config.oauth.as_ref().map(|oauth| oauth.issuer.clone()),
                trusted_proxies: config.trusted_proxies.clone(),
                cursor_key,
            },
        });
        let metrics = metrics_recorder()?;
        let limits = ServerLimits::default();
        let mut public = Server::new(listeners.public, public_router(api), limits);
        if let Some(tls) = tls {
            public = public.with_tls(tls);
        }
        let internal = Server::new(listeners.internal, internal_router(move || metrics.render()), limits);
        Ok(Self { bound, public_url, tenancy, hub, broker, audit, lease, draining, public, internal })
    }

    /// Serves until `shutdown`. Then: not ready at once, no new connections, running calls get 15 s and are interrupted
    /// after that, agents are told to come back, and the audit log is written to its end.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { tenancy, hub, broker, audit, lease, draining, public, internal, .. } = self;
        let stop_listeners = CancellationToken::new();
        let serving = tokio::spawn(public.run(stop_listeners.clone(), DRAIN + FLUSH));
        let metrics = tokio::spawn(internal.run(stop_listeners.clone(), FLUSH));
        shutdown.cancelled().await;

        tracing::info!("shutting down");
        draining.store(true, Ordering::SeqCst);
        stop_listeners.cancel();
        broker.shutdown(DRAIN).await;
        hub.say_goodbye(AGENTS_RETURN_AFTER);
        // The last word on each link belongs into the audit log, which is closed next.
        if tokio::time::timeout(FAREWELL, hub.emptied()).await.is_err() {
            tracing::warn!("some agents did not take their leave in time");
        }
        for task in [serving, metrics] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a listener's task panicked");
            }
        }
        if let Err(error) = audit.shutdown(FLUSH).await {
            tracing::error!(%error, "the audit log was not written to its end");
        }
        tenancy.close();
        drop(lease);
    }
}

/// The operator's policy, and that nobody can turn this server against itself.
async fn egress_policy(config: &Config, listeners: &Listeners, database: &Connections) -> Arc<EgressPolicy> {
    let mut policy = config.egress.clone();
    let ports = database.app.get_ports();
    for (at, host) in database.app.get_hosts().iter().enumerate() {
        // One port serves all hosts, or each has its own; the usual one is meant where none is named.
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        if let Host::Tcp(name) = host {
            policy.deny_hosts.push(name.clone());
            // A name that does not resolve now is refused by name all the same.
            if let Ok(addresses) = tokio::net::lookup_host((name.as_str(), port)).await {
                policy.own_addresses.extend(addresses);
            }
        }
    }
    let own = [listeners.public.local_addr(), listeners.internal.local_addr()];
    policy.own_addresses.extend(own.into_iter().flatten());
    if let Some(proxy) = &policy.proxy {
        tracing::warn!(
            %proxy,
            "addresses are vetted by the egress proxy: what a host's name resolves to is not checked here"
        );
    }
    Arc::new(policy)
}

/// The sealed store of this installation. Its master key is made on the first start, and never again.
fn open_secrets(data: &DataDir) -> Result<LocalSecrets, AppError> {
    let dir = data.private_dir("secrets")?;
    let master = MasterKey::load_or_create(&data.private_dir("keys")?.join("master.key"), &dir)?;
    Ok(LocalSecrets::open(LocalConfig { dir, master })?)
}

async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, AppError> {
    TcpListener::bind(address).await.map_err(|source| AppError::Listen { address, flag, source })
}

/// The process has one recorder; a second server in the same process, as in tests, shares it.
fn metrics_recorder() -> Result<PrometheusHandle, MetricsError> {
    static RECORDER: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    if let Some(handle) = RECORDER.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new().install_recorder()?;
    Ok(RECORDER.get_or_init(|| handle).clone())
}

/// A database opened for one command, whose audit events are in the chain before the command says that it is done.
pub(crate) struct CommandSession {
    database: Database,
    tenancy: Tenancy,
}

impl CommandSession {
    pub(crate) async fn open(source: &DatabaseSource, context: &Context) -> Result<Self, CommandError> {
        let opened = Database::attach_or_open(source, &context.data, &context.environment).await;
        let database = opened.context("the database cannot be opened")?;
        preflight::check(&database.connections).await.map_err(anyhow::Error::from)?;
        let two = PoolSize::new(2);
        let tenancy = Tenancy::connect(&database.connections.app, two);
        Ok(Self { database, tenancy })
    }

    pub(crate) fn tenancy(&self) -> &Tenancy {
        &self.tenancy
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.database.connections
    }

    /// Moves the command's events into the chain, and lets go of the database.
    pub(crate) async fn close(self) -> Result<(), CommandError> {
        let drained = audit::outbox::drain_once(&self.database.connections.audit).await;
        self.tenancy.close();
        self.database.close().await;
        drained.map_err(anyhow::Error::from)?;
        Ok(())
    }
}
