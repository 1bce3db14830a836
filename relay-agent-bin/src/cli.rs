//! The command line: what people type, and what the exit code says. Data goes to standard output, logs to standard error.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use mcp_core::secret::SecretValue;
use relay_agent::doctor::examine;
use relay_agent::enroll::{EnrollError, EnrollRequest, enroll};
use relay_agent::proxy::Proxy;
use relay_agent::run::{AgentConfig, run};
use relay_agent::server_url::ServerUrl;
use relay_agent::status::{LinkState, Status};
use relay_agent::trust::{CaSha256, Trust};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::Level;

const FAILURE: u8 = 1;
// 2 is wrong usage; clap says that.
const NOT_AUTHORISED: u8 = 3;
/// Far more than a token is long, bytes.
const LONGEST_TOKEN: u64 = 4096;

/// Answers six read-only commands of a CoreCI control plane. Opens no port.
///
/// Exit codes: 0 done, 1 failure, 2 wrong usage, 3 the control plane does not accept the token or the agent.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// Write more into the log.
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key and enrol this host. The token is read from standard input, so that no process list shows it.
    Enroll {
        /// The control plane, such as https://coreci.example.
        #[arg(long)]
        url: ServerUrl,
        /// PEM file of the authority that signed its certificate, when that is a private one. It has to stay there.
        #[arg(long, value_name = "FILE", conflicts_with = "ca_sha256")]
        ca_file: Option<PathBuf>,
        /// SHA-256 of that authority's certificate, when the control plane sends the certificate along.
        #[arg(long, value_name = "HEX")]
        ca_sha256: Option<CaSha256>,
        /// Read the token from standard input.
        #[arg(long, required = true)]
        token_stdin: bool,
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// Keep a link to the control plane until told to stop (SIGTERM or SIGINT).
    Run {
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// Print status.json. Exit code 0 when the link is live, 3 when the control plane refuses the agent, else 1.
    Status {
        #[command(flatten)]
        state: StateArgs,
    },
    /// Check everything that the agent needs.
    Doctor {
        #[command(flatten)]
        state: StateArgs,
        #[command(flatten)]
        proxy: ProxyArgs,
    },
}

#[derive(Args)]
struct StateArgs {
    /// Where the agent keeps its key.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/coreci-relay")]
    state_dir: PathBuf,
}

#[derive(Args)]
struct ProxyArgs {
    /// HTTP proxy on the way out, http://host:port. Never used for loopback addresses.
    #[arg(long, env = "HTTPS_PROXY", hide_env_values = true)]
    proxy: Option<String>,
}

#[derive(Args)]
struct AgentArgs {
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    proxy: ProxyArgs,
    /// Work as root all the same. The six commands do not need it.
    #[arg(long)]
    allow_root: bool,
}

impl Cli {
    pub(crate) fn execute(self) -> ExitCode {
        let level = if self.verbose { Level::DEBUG } else { Level::INFO };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_target(false)
            .with_writer(std::io::stderr)
            .init();
        // One thread is plenty for one link and four children, and costs the least memory.
        let done = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.command.execute()),
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(code) => code,
            Err(error) => {
                tracing::error!("{error:#}");
                match error.downcast_ref() {
                    Some(EnrollError::TokenRefused) => NOT_AUTHORISED.into(),
                    _ => FAILURE.into(),
                }
            }
        }
    }
}

impl Command {
    async fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Enroll { url, ca_file, ca_sha256, token_stdin: _, agent } => {
                let trust = match (ca_file, ca_sha256) {
                    // The agent may be started from anywhere.
                    (Some(path), _) => Trust::CaFile(std::path::absolute(path)?),
                    (None, Some(hash)) => Trust::CaSha256(hash),
                    (None, None) => Trust::System,
                };
                enroll_host(url, trust, agent).await
            }
            Self::Run { agent } => run_agent(agent).await,
            Self::Status { state } => print_status(&state),
            Self::Doctor { state, proxy } => print_findings(&state, proxy).await,
        }
    }
}

async fn enroll_host(url: ServerUrl, trust: Trust, agent: AgentArgs) -> anyhow::Result<ExitCode> {
    agent.check_user()?;
    let token = read_token(std::io::stdin().lock())?;
    let mut request = EnrollRequest::new(url, token, agent.state.state_dir);
    request.trust = trust;
    request.proxy = agent.proxy.parse()?;
    let enrolled = enroll(request).await?;
    let data = serde_json::json!({ "agentId": enrolled.agent, "targetId": enrolled.target });
    print(&data.to_string())?;
    Ok(ExitCode::SUCCESS)
}

async fn run_agent(agent: AgentArgs) -> anyhow::Result<ExitCode> {
    agent.check_user()?;
    let mut config = AgentConfig::new(agent.state.state_dir);
    config.proxy = agent.proxy.parse()?;
    let shutdown = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    run(config, shutdown).await?;
    Ok(ExitCode::SUCCESS)
}

fn print_status(state: &StateArgs) -> anyhow::Result<ExitCode> {
    let Some(status) = Status::load(&state.state_dir).context("status.json cannot be read")? else {
        bail!("no agent has run with this state directory");
    };
    print(&serde_json::to_string_pretty(&status)?)?;
    Ok(match status.state {
        _ if status.is_online() => ExitCode::SUCCESS,
        LinkState::Refused => NOT_AUTHORISED.into(),
        LinkState::Online | LinkState::Connecting | LinkState::Waiting | LinkState::Stopped => FAILURE.into(),
    })
}

async fn print_findings(state: &StateArgs, proxy: ProxyArgs) -> anyhow::Result<ExitCode> {
    let findings = examine(&state.state_dir, proxy.parse()?).await;
    let mut code = ExitCode::SUCCESS;
    for finding in findings {
        match finding.result {
            Ok(detail) => print(&format!("ok     {}: {detail}", finding.check))?,
            Err(fault) => {
                code = FAILURE.into();
                print(&format!("FAULT  {}: {fault}", finding.check))?;
            }
        }
    }
    Ok(code)
}

impl AgentArgs {
    /// Root can read every journal and its key outlives the user's permissions; ask for that in so many words.
    fn check_user(&self) -> anyhow::Result<()> {
        check_user(rustix::process::geteuid().is_root(), self.allow_root)
    }
}

fn check_user(is_root: bool, allow_root: bool) -> anyhow::Result<()> {
    if is_root && !allow_root {
        bail!("the agent needs no root; run it as a user of its own, or say --allow-root");
    }
    Ok(())
}

impl ProxyArgs {
    /// Parsed here and not by clap, which would print a password that stands in it.
    fn parse(&self) -> anyhow::Result<Option<Proxy>> {
        match self.proxy.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => Ok(Some(text.parse()?)),
        }
    }
}

fn read_token(input: impl Read) -> anyhow::Result<SecretValue> {
    let mut text = String::new();
    input.take(LONGEST_TOKEN).read_to_string(&mut text).context("the token cannot be read")?;
    let token = text.trim();
    if token.is_empty() {
        bail!("standard input holds no token");
    }
    Ok(SecretValue::new(token.to_owned()))
}

fn print(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let enroll = ["relay-agent", "enroll", "--url", "https://cp.example"];
        assert!(Cli::try_parse_from(enroll).is_err(), "there is no other way to give the token");
        assert!(Cli::try_parse_from(enroll.iter().chain(&["--token-stdin"])).is_ok());
        assert!(
            Cli::try_parse_from(["relay-agent", "enroll", "--token-stdin", "--url", "http://x"]).is_err()
        );
        assert!(Cli::try_parse_from(["relay-agent", "run", "--state-dir", "/x"]).is_ok());
        assert!(Cli::try_parse_from(["relay-agent"]).is_err());
    }

    // proves: C-G21
    #[test]
    fn root_has_to_be_asked_for() {
        assert!(check_user(true, false).is_err());
        assert!(check_user(true, true).is_ok());
        assert!(check_user(false, false).is_ok());
    }

    // proves: C-J13
    #[test]
    fn a_token_is_trimmed_and_not_empty() {
        let token = |text: &str| read_token(text.as_bytes());
        assert!(token("  t0ken\n").is_ok_and(|token| token == SecretValue::new("t0ken".to_owned())));
        assert!(token(" \n").is_err());
    }
}
