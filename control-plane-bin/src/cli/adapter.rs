//! `adapter add|list|test|remove`, over HTTP: the server dials the upstream, so the server must do the check.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::remote::Remote;
use super::{CommandError, Context, say};
use crate::client::{Client, ClientError};
use crate::output::{self, Format};

/// What a credential should be allowed, and no more.
const LEAST_PRIVILEGE: &str = "\
The credential needs to read, and should be able to do nothing else:
  proxmox  an API token with the role PVEAuditor on path / (Datacenter > Permissions > API tokens), given as
           USER@REALM!TOKENID=SECRET; the node is named with each call
  github   a fine-grained personal access token with metadata:read and actions:read for the repositories
  gitea    an access token with the scopes read:user and read:repository";

#[derive(Debug, Subcommand)]
pub(crate) enum AdapterCommand {
    /// Configure an adapter. It is checked against its upstream first.
    #[command(after_long_help = LEAST_PRIVILEGE)]
    Add(AddArgs),
    /// List adapters.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Check an adapter now. Exit code 5 when the check fails.
    Test {
        /// Id or name of the adapter.
        adapter: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Remove an adapter and its credential.
    Remove {
        /// Id or name of the adapter.
        adapter: String,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Proxmox,
    Github,
    Gitea,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Which upstream.
    #[arg(long = "type", value_enum)]
    kind: Kind,
    /// Name that the target will have.
    #[arg(long)]
    name: String,
    /// Where it is; not needed for github.com.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// File that holds the credential; standard input when absent.
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// SHA-256 of the certificate to believe.
    #[arg(long, value_name = "HEX", conflicts_with = "tls_ca_file")]
    pin: Option<String>,
    /// File with the certificate authority to believe, PEM.
    #[arg(long, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// Option of this kind of adapter, such as allow_overprivileged=true.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// Save it although the check has not been made.
    #[arg(long)]
    save_unverified: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: AdapterCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        AdapterCommand::Add(args) => add(args, context).await,
        AdapterCommand::List { remote } => {
            let list = remote.client(context)?.send(Method::GET, "/api/mcp/adapter?limit=1000", None).await?;
            let columns = ["name", "type", "status", "baseUrl", "checkedAt", "id"];
            output::print(context.output, &columns, &list["adapters"]);
            Ok(())
        }
        AdapterCommand::Test { adapter, remote } => {
            let client = remote.client(context)?;
            let id = find(&client, &adapter).await?;
            let report = client.send(Method::POST, &format!("/api/mcp/adapter/{id}/test"), None).await?;
            show_steps(context.output, &report);
            if report["ok"] == json!(true) {
                return Ok(());
            }
            Err(CommandError::Verdict { code: 5, message: "the check failed".to_owned() })
        }
        AdapterCommand::Remove { adapter, remote } => {
            let client = remote.client(context)?;
            let id = find(&client, &adapter).await?;
            client.send(Method::DELETE, &format!("/api/mcp/adapter/{id}"), None).await?;
            say("removed, and its credential destroyed");
            Ok(())
        }
    }
}

async fn add(args: AddArgs, context: &Context) -> Result<(), CommandError> {
    let tls = match (&args.pin, &args.tls_ca_file) {
        (Some(pin), _) => json!({ "mode": "sha256_pin", "sha256": pin }),
        (None, Some(file)) => json!({ "mode": "ca_pem", "ca_pem": read(file)? }),
        (None, None) => json!({ "mode": "system" }),
    };
    let kind = match args.kind {
        Kind::Proxmox => "proxmox",
        Kind::Github => "github",
        Kind::Gitea => "gitea",
    };
    let body = json!({
        "type": kind,
        "name": args.name,
        "base_url": args.base_url,
        "credential": credential(args.credential_file.as_deref())?,
        "tls": tls,
        "options": options(&args.options)?,
        "save_unverified": args.save_unverified,
    });
    let client = args.remote.client(context)?;
    match client.send(Method::POST, "/api/mcp/adapter", Some(&body)).await {
        Ok(configured) => {
            show_steps(context.output, &configured);
            Ok(())
        }
        Err(ClientError::Refused { status, message, body, .. }) if status.as_u16() == 422 => {
            show_steps(context.output, &body);
            if let Some(fingerprint) = body["fingerprint"].as_str() {
                say(&format!(
                    "the host shows a certificate with this SHA-256; if it is the right one, add --pin {fingerprint}"
                ));
            }
            Err(CommandError::Verdict { code: 5, message })
        }
        Err(error) => Err(error.into()),
    }
}

/// The secret never stands on the command line, where every user of the machine could read it.
fn credential(file: Option<&Path>) -> Result<String, CommandError> {
    let text = match file {
        Some(file) => read(file)?,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
            text
        }
    };
    let text = text.trim().to_owned();
    if text.is_empty() {
        return Err(CommandError::Usage("no credential: pipe it in, or name a --credential-file".to_owned()));
    }
    Ok(text)
}

fn read(file: &Path) -> Result<String, CommandError> {
    Ok(std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?)
}

fn options(pairs: &[String]) -> Result<Map<String, Value>, CommandError> {
    let parse = |pair: &String| {
        let (name, value) = pair.split_once('=')?;
        // What is JSON is taken as JSON (true, 5); anything else is text.
        Some((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
    };
    let usage = || CommandError::Usage("--option takes NAME=VALUE".to_owned());
    pairs.iter().map(|pair| parse(pair).ok_or_else(usage)).collect()
}

fn show_steps(format: Format, report: &Value) {
    match format {
        Format::Json => output::print(format, &[], report),
        Format::Table => output::print(format, &["step", "status", "message", "fix"], &report["steps"]),
    }
}

/// The id of an adapter that is named by id or name.
async fn find(client: &Client, wanted: &str) -> Result<String, CommandError> {
    let list = client.send(Method::GET, "/api/mcp/adapter?limit=1000", None).await?;
    let adapters = list["adapters"].as_array().cloned().unwrap_or_default();
    let found = adapters.iter().find(|one| one["id"] == json!(wanted) || one["name"] == json!(wanted));
    let id = found.and_then(|one| one["id"].as_str()).map(str::to_owned);
    id.ok_or_else(|| CommandError::NotFound("there is no such adapter: adapter list shows them".to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use mcp_core::tool::{ToolName, catalogue};

    use crate::cli::Cli;

    // proves: P-06, GH-11
    #[test]
    fn the_help_says_what_the_credential_needs_and_the_node_is_always_named() {
        let mut command = Cli::command();
        let add =
            command.find_subcommand_mut("adapter").and_then(|adapter| adapter.find_subcommand_mut("add"));
        let help = add.expect("adapter add").render_long_help().to_string();
        for word in ["PVEAuditor", "actions:read", "read:user", "read:repository"] {
            assert!(help.contains(word), "{word}");
        }
        for tool in [ToolName::ProxmoxListVms, ToolName::ProxmoxGetVmStatus, ToolName::ProxmoxGetNodeMetrics]
        {
            let definition = catalogue().iter().find(|known| known.name == tool).expect("one of the nine");
            let required = definition.input_schema["required"].as_array().expect("a list");
            assert!(required.iter().any(|name| name == "node"), "{tool}");
        }
    }

    #[test]
    fn options_are_json_where_they_can_be() {
        let parsed = super::options(&["allow_overprivileged=true".to_owned(), "note=plain".to_owned()]);
        let parsed = parsed.expect("options");
        assert_eq!(parsed["allow_overprivileged"], true);
        assert_eq!(parsed["note"], "plain");
        assert!(super::options(&["no-value".to_owned()]).is_err());
    }
}
