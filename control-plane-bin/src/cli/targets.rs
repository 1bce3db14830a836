//! `targets list|enroll|revoke`, over HTTP: a revocation must reach the process that holds the agent's link.

use clap::Subcommand;
use reqwest::Method;
use serde_json::json;

use super::remote::Remote;
use super::{CommandError, Context, say};
use crate::output::{self, Format};

#[derive(Debug, Subcommand)]
pub(crate) enum TargetsCommand {
    /// List targets.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Make a single-use token for a new host, and the command to run there.
    Enroll {
        /// Name that the target will have.
        name: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Revoke a target's agent for good.
    Revoke {
        /// Id or name of the target.
        target: String,
        #[command(flatten)]
        remote: Remote,
    },
}

pub(crate) async fn run(command: TargetsCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        TargetsCommand::List { remote } => {
            let list = remote.client(context)?.send(Method::GET, "/api/targets?limit=1000", None).await?;
            let columns = ["name", "kind", "status", "hostname", "lastSeen", "id"];
            output::print(context.output, &columns, &list["targets"]);
        }
        TargetsCommand::Enroll { name, remote } => {
            let client = remote.client(context)?;
            let body = json!({ "name": name });
            let made = client.send(Method::POST, "/api/targets/enrollments", Some(&body)).await?;
            match context.output {
                Format::Json => output::print(context.output, &[], &made),
                Format::Table => {
                    say("run this on the host, within the hour:");
                    output::line(made["command"].as_str().unwrap_or_default());
                }
            }
        }
        TargetsCommand::Revoke { target, remote } => {
            // A name has no character that would need escaping; anything else is not the name of a target.
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if target.is_empty() || !target.chars().all(is_plain) {
                return Err(CommandError::NotFound("there is no such target".to_owned()));
            }
            let path = format!("/api/targets/{target}/revoke");
            remote.client(context)?.send(Method::POST, &path, None).await?;
            say("revoked");
        }
    }
    Ok(())
}
