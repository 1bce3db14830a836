//! The command line: what can be asked, and which exit code says how it went.

mod adapter;
mod audit;
mod connect;
mod key;
mod mcp_stdio;
mod migrate;
mod remote;
mod serve;
mod targets;
mod tenant;
mod tls;
mod tools;
mod user;

pub(crate) use self::serve::on_signal;
pub(crate) use self::tenant::OPERATOR;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tenancy::embedded::supervised_main;

use crate::client::ClientError;
use crate::config::Environment;
use crate::data_dir::DataDir;
use crate::database::SUPERVISED;
use crate::dev;
use crate::logging::{self, LogFormat};
use crate::output::Format;

/// CoreCI control plane: a read-only gateway between language models and infrastructure.
#[derive(Debug, Parser)]
#[command(name = "control-plane", version)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Directory that everything of this installation lies in.
    #[arg(long, global = true, env = "CORECI_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Form of the answer on standard output.
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Form of the log on standard error.
    #[arg(long, global = true, env = "CORECI_LOG_FORMAT", value_enum, default_value_t = LogFormat::Pretty)]
    log_format: LogFormat,
    /// What is logged, in the syntax of RUST_LOG.
    #[arg(long, global = true, env = "CORECI_LOG", default_value = "warn")]
    log: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try it on this machine: database, demo tenant, an agent for this host, and one real call.
    Dev(dev::DevArgs),
    /// Serve.
    Serve(Box<serve::ServeArgs>),
    /// Bring the database up to date.
    Migrate(migrate::MigrateArgs),
    /// The certificate of this server.
    #[command(subcommand)]
    Tls(tls::TlsCommand),
    /// Tenants of this installation.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// API keys of a tenant.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// People, as an issuer of access tokens knows them.
    #[command(subcommand)]
    User(user::UserCommand),
    /// Tools of a running control plane.
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Targets of a running control plane.
    #[command(subcommand)]
    Targets(targets::TargetsCommand),
    /// Adapters of a running control plane.
    #[command(subcommand)]
    Adapter(adapter::AdapterCommand),
    /// Configuration with which an MCP client reaches a control plane.
    Connect(connect::ConnectArgs),
    /// MCP over standard input and output, bridged to a running control plane.
    McpStdio(mcp_stdio::McpStdioArgs),
    /// The audit log.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
}

/// What a command is handed.
pub(crate) struct Context {
    pub(crate) data: DataDir,
    pub(crate) environment: Environment,
    pub(crate) output: Format,
}

/// How a command ended, other than well. The exit codes are those of SPEC §15.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// 1.
    #[error(transparent)]
    Failure(#[from] anyhow::Error),
    /// 2.
    #[error("{0}")]
    Usage(String),
    /// 3.
    #[error("{0}")]
    NotAuthorised(String),
    /// 4.
    #[error("{0}")]
    NotFound(String),
    /// A verdict with a code of its own (`audit verify`).
    #[error("{message}")]
    Verdict {
        /// The exit code.
        code: u8,
        /// What was found.
        message: String,
    },
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused { status, .. } => match status.as_u16() {
                401 | 403 => Self::NotAuthorised(error.to_string()),
                404 => Self::NotFound(error.to_string()),
                _ => Self::Failure(error.into()),
            },
            ClientError::Incomplete => Self::Usage(error.to_string()),
            _ => Self::Failure(error.into()),
        }
    }
}

impl CommandError {
    fn code(&self) -> u8 {
        match self {
            Self::Failure(_) => 1,
            Self::Usage(_) => 2,
            Self::NotAuthorised(_) => 3,
            Self::NotFound(_) => 4,
            Self::Verdict { code, .. } => *code,
        }
    }
}

/// When this process is a child that is to become Postgres, becomes it; returns a code only if that fails.
#[must_use]
pub fn supervised() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next().as_deref() == Some(OsStr::new(SUPERVISED))).then(|| supervised_main(args))
}

impl Cli {
    /// Runs the command to its end.
    #[must_use]
    pub fn run(self) -> ExitCode {
        logging::start(self.global.log_format, &self.global.log);
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider was installed already");
        }
        let environment = Environment::read();
        let data = DataDir::choose(
            self.global.data_dir.as_deref(),
            environment.xdg_data_home.as_deref(),
            environment.home.as_deref(),
        );
        let outcome = match data {
            Ok(data) => {
                let context = Context { data, environment, output: self.global.output };
                block_on(run(self.command, context))
            }
            Err(error) => Err(CommandError::Failure(error.into())),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&describe(&error));
                ExitCode::from(error.code())
            }
        }
    }
}

fn block_on(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::Failure(error.into()))?;
    let outcome = runtime.block_on(work);
    // A read of standard input cannot be interrupted, and nobody waits for it any more.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn run(command: Command, context: Context) -> Result<(), CommandError> {
    match command {
        Command::Dev(args) => dev::run(args, &context).await,
        Command::Serve(args) => serve::run(*args, &context).await,
        Command::Migrate(args) => migrate::run(args, &context).await,
        Command::Tls(command) => tls::run(command, &context),
        Command::Tenant(command) => tenant::run(command, &context).await,
        Command::Key(command) => key::run(command, &context).await,
        Command::User(command) => user::run(command, &context).await,
        Command::Tools(command) => tools::run(command, &context).await,
        Command::Targets(command) => targets::run(command, &context).await,
        Command::Connect(args) => connect::run(args, &context),
        Command::McpStdio(args) => mcp_stdio::run(args, &context).await,
        Command::Adapter(command) => adapter::run(command, &context).await,
        Command::Audit(command) => audit::run(command, &context).await,
    }
}

/// Prints one line for a person on standard error.
#[expect(clippy::print_stderr, reason = "this is the one place where commands speak to a person")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// An error with its causes, without saying anything twice.
fn describe(error: &CommandError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
