//! `connect`: the configuration with which an MCP client reaches a control plane.
//!
//! Where a client can take the key from elsewhere, it does not stand in the configuration.

mod clients;
mod edit;
mod file;
mod json;
mod places;
mod server;
mod toml;

use std::path::{Path, PathBuf};

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
    /// Write it into the client's configuration, and keep what was there beside it.
    #[arg(long)]
    write: bool,
    /// Another file to write into, such as a project's own.
    #[arg(long, value_name = "FILE", requires = "write")]
    file: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) fn run(args: ConnectArgs, context: &Context) -> Result<(), CommandError> {
    let client = args.client;
    let server = Server::find(&args.remote, &args.name, context)?;
    let bridge = std::env::current_exe().context("the path of this program is not known")?;
    let bridge = bridge.to_str().context("the path of this program is no text")?;
    let setup = client.setup(&server, args.embed_key, bridge)?;
    if server.is_exposed {
        say(&format!("{} is not encrypted: the key can be read on the way", server.url));
    }
    let steps = client.steps(&server, args.embed_key);
    let own_file = file_of(client, Platform::here(), &context.environment);
    if args.write {
        let file = args.file.or(own_file);
        write(client, &setup, file.as_deref(), args.embed_key, &steps, context.output)
    } else {
        print(client, &setup, own_file.as_deref(), &steps, context.output)
    }
}

fn print(
    client: Client,
    setup: &Setup,
    file: Option<&Path>,
    steps: &[String],
    format: Format,
) -> Result<(), CommandError> {
    let text = match setup {
        Setup::Command(text) => text.clone(),
        Setup::Entry(entry) => entry.apply("").map_err(anyhow::Error::from)?,
    };
    match format {
        Format::Json => {
            let answer =
                json!({ "client": client.title(), "file": file, "configuration": text, "steps": steps });
            output::print(Format::Json, &[], &answer);
        }
        Format::Table => {
            if let Some(file) = file {
                say(&format!("for {}; --write puts it there:", file.display()));
            }
            output::line(text.trim_end());
            for step in steps {
                say(step);
            }
        }
    }
    Ok(())
}

fn write(
    client: Client,
    setup: &Setup,
    file: Option<&Path>,
    is_secret: bool,
    steps: &[String],
    format: Format,
) -> Result<(), CommandError> {
    let Setup::Entry(entry) = setup else {
        return Err(CommandError::Usage(format!(
            "{} keeps no configuration: run what is printed without --write",
            client.title()
        )));
    };
    let file = file.ok_or_else(|| {
        CommandError::Usage("HOME is not set: name the file to write into with --file".to_owned())
    })?;
    let written = file::write(file, is_secret, |text| entry.apply(text)).map_err(anyhow::Error::from)?;
    match format {
        Format::Json => {
            let answer = json!({
                "client": client.title(),
                "file": written.file,
                "changed": written.is_changed,
                "backup": written.backup,
                "steps": steps,
            });
            output::print(Format::Json, &[], &answer);
        }
        Format::Table => {
            let verb = if written.is_changed { "wrote" } else { "nothing to change in" };
            say(&format!("{verb} {}", written.file.display()));
            if let Some(backup) = &written.backup {
                say(&format!("what was there is in {}", backup.display()));
            }
            for step in steps {
                say(step);
            }
        }
    }
    Ok(())
}
