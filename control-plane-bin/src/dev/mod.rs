//! `dev`: everything on this machine, and one real call through all of it.

mod demo;
mod host;
mod report;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::demo::Demo;
pub(crate) use self::demo::KEY_FILE;
use self::host::HostAgent;
use self::report::Report;
use crate::app::{App, Listeners};
use crate::cli::{CommandError, Context, on_signal, say};
use crate::client::{Client, DEV_JSON, DevJson};
use crate::config::{EgressSettings, Settings};
use crate::database::{Database, DatabaseSource};
use crate::output::Format;

/// The tool and arguments of the first call.
const TOOL: &str = "ssh.run_whitelisted_command";
const COMMAND: &str = "uptime";
/// Time for this machine's agent to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Exit after the first call.
    #[arg(long)]
    once: bool,
    /// Address to listen on; a loopback address.
    #[arg(long, env = "CORECI_LISTEN", value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Address of the internal listener, for metrics.
    #[arg(long, env = "CORECI_INTERNAL_LISTEN", value_name = "ADDR:PORT")]
    internal_listen: Option<SocketAddr>,
    #[command(flatten)]
    egress: EgressSettings,
    #[command(flatten)]
    database: DatabaseSource,
}

/// To try adapters out, `dev` may reach services on this machine, on any port, unless it is told otherwise.
fn egress_of_dev(named: EgressSettings) -> EgressSettings {
    EgressSettings {
        ports: named.ports.or_else(|| Some((1..=u16::MAX).collect())),
        allow_http: named.allow_http.or(Some(true)),
        allow_loopback: named.allow_loopback.or(Some(true)),
        ..named
    }
}

pub(crate) async fn run(args: DevArgs, context: &Context) -> Result<(), CommandError> {
    let started = Instant::now();
    if args.listen.is_some_and(|address| !address.ip().is_loopback()) {
        return Err(CommandError::Usage(
            "dev listens on loopback addresses only; use serve for others".to_owned(),
        ));
    }
    let settings = Settings {
        listen: args.listen,
        internal_listen: args.internal_listen,
        egress: egress_of_dev(args.egress.clone()),
        ..Settings::default()
    };
    let config = settings.check().map_err(anyhow::Error::from)?;
    let shutdown = on_signal().context("signals cannot be waited for")?;
    let listeners = Listeners::bind(&config).await.map_err(anyhow::Error::from)?;
    let opened = Database::open(&args.database, &context.data, &context.environment).await;
    let database = opened.context("the database cannot be opened")?;
    let outcome = async {
        let app = App::build(&config, listeners, &database.connections, &context.data).await?;
        serve(app, &args, context, started, shutdown).await
    };
    let outcome = outcome.await;
    database.close().await;
    outcome.map_err(CommandError::Failure)
}

async fn serve(
    app: App,
    args: &DevArgs,
    context: &Context,
    started: Instant,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let demo =
        Demo::prepare(&app.tenancy, &context.data).await.context("the demo tenant cannot be prepared")?;
    let (url, hub) = (app.public_url.as_str().to_owned(), app.hub.clone());
    let client = Client::new(&url, demo.key.clone(), None)?;
    let stop_app = CancellationToken::new();
    let running = tokio::spawn(app.run(stop_app.clone()));

    let work = async {
        let host = HostAgent::start(&client, &url, &context.data).await?;
        let shown = async {
            wait_until_connected(&hub, &demo, &host).await?;
            let report = first_call(&client, &host, started).await?;
            let dev = leave_dev_json(context, &url, &demo, &host)?;
            show(context, args, &report, &dev)
        };
        let shown = shown.await;
        if shown.is_ok() && !args.once {
            shutdown.cancelled().await;
        }
        host.stop().await;
        shown
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        // The server ends by itself only if it is broken.
        () = wait_for_end(&stop_app, &running) => Err(anyhow!("the server ended unexpectedly")),
    };
    context.data.remove(DEV_JSON);
    stop_app.cancel();
    running.await.context("the server panicked")?;
    outcome
}

async fn wait_for_end(stop: &CancellationToken, running: &tokio::task::JoinHandle<()>) {
    while !running.is_finished() && !stop.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn wait_until_connected(hub: &adapter_ssh::Hub, demo: &Demo, host: &HostAgent) -> anyhow::Result<()> {
    let connected = async {
        while !hub.is_connected(demo.tenant, host.target) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let connected = tokio::time::timeout(CONNECT_WITHIN, connected).await;
    connected
        .map_err(|_| anyhow!("this machine's agent did not connect within 15 s; run again with --log debug"))
}

/// One call as any client makes it: POST, then the events of its stream; then the chain is verified.
async fn first_call(client: &Client, host: &HostAgent, started: Instant) -> anyhow::Result<Report> {
    let start_ms = started.elapsed().as_millis();
    let called = Instant::now();
    let body = json!({ "tool": TOOL, "target_id": host.target, "args": { "command": COMMAND } });
    let accepted = client.send(Method::POST, "/api/mcp/invoke", Some(&body)).await?;
    let stream_url = accepted["streamUrl"].as_str().ok_or_else(|| anyhow!("the answer names no stream"))?;
    let events = client.stream(stream_url).await?;
    let call_ms = called.elapsed().as_millis();
    let result = events.iter().find(|event| event.event == "tool_result");
    let Some(result) = result else {
        let last = events.last().map_or("the stream was empty", |event| &event.data);
        return Err(anyhow!("the first call failed: {last}"));
    };
    let result: Value = serde_json::from_str(&result.data).context("the result is not JSON")?;
    let audit = client.send(Method::POST, "/api/audit/verify", None).await?;
    Ok(Report {
        tool: TOOL,
        command: COMMAND,
        target_id: host.target.to_string(),
        correlation_id: accepted["correlationId"].as_str().unwrap_or_default().to_owned(),
        result,
        audit,
        start_ms,
        call_ms,
    })
}

fn leave_dev_json(context: &Context, url: &str, demo: &Demo, host: &HostAgent) -> anyhow::Result<DevJson> {
    #[expect(
        clippy::disallowed_methods,
        reason = "dev.json is where the key is kept for programs of this user"
    )]
    let api_key = demo.key.reveal().to_owned();
    let dev = DevJson {
        url: url.to_owned(),
        mcp_url: format!("{url}/mcp"),
        api_key,
        tenant_id: demo.tenant.to_string(),
        target_id: host.target.to_string(),
        login_url: None,
    };
    context.data.write_text(DEV_JSON, &format!("{}\n", serde_json::to_string_pretty(&dev)?))?;
    Ok(dev)
}

fn show(context: &Context, args: &DevArgs, report: &Report, dev: &DevJson) -> anyhow::Result<()> {
    if !report.is_good() {
        return Err(anyhow!("the first call did not end well: {}", report.json()));
    }
    match context.output {
        Format::Json => crate::output::line(&report.json().to_string()),
        Format::Table => report.print(),
    }
    if !args.once {
        say(&report::how_to_go_on(&context.data, dev));
    }
    Ok(())
}
