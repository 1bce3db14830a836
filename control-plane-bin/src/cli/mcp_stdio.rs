//! `mcp-stdio`: MCP for clients that start their servers as programs. The bridge itself is a crate of its own.

use anyhow::Context as _;
use clap::Args;
use mcp_stdio::{Bridge, LocateError, Server};

use super::remote::Remote;
use super::{CommandError, Context, say};

#[derive(Debug, Args)]
pub(crate) struct McpStdioArgs {
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: McpStdioArgs, context: &Context) -> Result<(), CommandError> {
    let (data, api_key) = (context.data.clone(), context.environment.api_key.clone());
    let locate = move || {
        let unknown = |error: &dyn std::fmt::Display| LocateError::Unknown(error.to_string());
        let ca_pem = args.remote.ca_pem().map_err(|error| unknown(&error))?;
        // The variable stands in for the key file, for clients that hand secrets over by the environment.
        let (url, key) = match (&args.remote.url, &args.remote.key_file, &api_key) {
            (Some(url), None, Some(key)) => (url.clone(), key.clone()),
            _ => {
                let place = args.remote.place(&data).map_err(|error| unknown(&error))?;
                (place.url, place.key)
            }
        };
        Ok(Server { url, key, ca_pem })
    };
    let bridge = Bridge::new(locate, say).map_err(anyhow::Error::from)?;
    let carried = bridge.run(tokio::io::stdin(), tokio::io::stdout()).await;
    Ok(carried.context("standard input cannot be read")?)
}
