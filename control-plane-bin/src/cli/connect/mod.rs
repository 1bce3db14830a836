//! `connect`: the configuration with which an MCP client reaches a control plane.
//!
//! Where a client can take the key from elsewhere, it does not stand in the configuration.

mod clients;
mod edit;
mod json;
mod places;
mod server;
mod toml;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use self::clients::{Client, Setup};
use self::places::{Platform, file_of};
use self::server::Server;
use super::remote::Remote;
use super::{CommandError, Context, say};
use crate::output::{self, Format};

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The client.
    #[arg(value_enum)]
    client: Client,
    /// Name that the server has in the client.
    #[arg(long, default_value = "coreci")]
    name: String,
    /// Write the key itself into the configuration of claude-code or cursor, in place of a variable.
    #[arg(long)]
    embed_key: bool,
    /// PEM file of the authority that signed the server's certificate, when no public one did.
    #[arg(long, env = "CORECI_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: ConnectArgs, context: &Context) -> Result<(), CommandError> {
    let client = args.client;
    let server = Server::find(&args.remote, &args.name, args.ca_file.as_deref(), context)?;
    let bridge = std::env::current_exe().context("the path of this program is not known")?;
    let bridge = bridge.to_str().context("the path of this program is no text")?;
    let setup = client.setup(&server, args.embed_key, bridge)?;
    if server.is_exposed {
        say(&format!("{} is not encrypted: the key can be read on the way", server.url));
    }
    let file = file_of(client, Platform::here(), &context.environment);
    let text = match &setup {
        Setup::Json(edit) => edit.apply("").map_err(anyhow::Error::from)?,
        Setup::Toml(edit) => edit.apply("").map_err(anyhow::Error::from)?,
        Setup::Command(text) => text.clone(),
    };
    let steps = client.steps(&server, args.embed_key);
    match context.output {
        Format::Json => {
            let answer =
                json!({ "client": client.title(), "file": file, "configuration": text, "steps": steps });
            output::print(Format::Json, &[], &answer);
        }
        Format::Table => {
            if let Some(file) = &file {
                say(&format!("for {}:", file.display()));
            }
            output::line(text.trim_end());
            for step in steps {
                say(&step);
            }
        }
    }
    Ok(())
}
