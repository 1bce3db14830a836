//! `serve`: the control plane as a service.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{CommandError, Context, say};
use crate::app::{App, Listeners};
use crate::config::Settings;
use crate::database::{Database, DatabaseSource};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// TOML file with settings; flags and environment win over it.
    #[arg(long, env = "CORECI_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    database: DatabaseSource,
}

pub(crate) async fn run(args: ServeArgs, context: &Context) -> Result<(), CommandError> {
    let config = args.settings.or_file(args.config.as_deref()).map_err(anyhow::Error::from)?;
    let config = config.check().map_err(anyhow::Error::from)?;
    let shutdown = on_signal().context("signals cannot be waited for")?;
    let listeners = Listeners::bind(&config).await.map_err(anyhow::Error::from)?;
    let opened = Database::open(&args.database, &context.data, &context.environment).await;
    let database = opened.context("the database cannot be opened")?;
    let app = match App::build(&config, listeners, &database.connections, &context.data).await {
        Ok(app) => app,
        Err(error) => {
            database.close().await;
            return Err(CommandError::Failure(error.into()));
        }
    };
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    say(&format!("serving on {scheme}://{}, public URL {}", app.bound, app.public_url.as_str()));
    app.run(shutdown).await;
    database.close().await;
    Ok(())
}

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once.
pub(crate) fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if cancelled.is_cancelled() {
                std::process::exit(1);
            }
            cancelled.cancel();
        }
    });
    Ok(token)
}
