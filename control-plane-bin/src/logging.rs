//! Logs: structured, on standard error, so that standard output carries data only.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `filter` is in the syntax of `RUST_LOG`; one that cannot be read falls back to warnings.
pub(crate) fn start(format: LogFormat, filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    // rmcp logs whole messages, and with them what was asked and answered.
    let filter = match "rmcp=error".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Pretty => builder.with_ansi(std::io::stderr().is_terminal()).compact().init(),
        LogFormat::Json => builder.json().init(),
    }
}
