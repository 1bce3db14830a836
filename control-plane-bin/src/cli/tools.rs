//! `tools list` and `tools call`, over HTTP.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::remote::Remote;
use super::{CommandError, Context};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools that the key may call.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Call a tool and wait for its result.
    Call {
        /// Name of the tool, such as ssh.run_whitelisted_command.
        tool: String,
        /// Arguments as a JSON object.
        #[arg(default_value = "{}")]
        args: String,
        /// Id or name of the target; needed only when there are several.
        #[arg(long)]
        target: Option<String>,
        #[command(flatten)]
        remote: Remote,
    },
}

pub(crate) async fn run(command: ToolsCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        ToolsCommand::List { remote } => {
            let list = remote.client(context)?.send(Method::GET, "/api/mcp/tools", None).await?;
            output::print(context.output, &["name", "title"], &list["tools"]);
            Ok(())
        }
        ToolsCommand::Call { tool, args, target, remote } => {
            let args: Value = serde_json::from_str(&args).map_err(|error| {
                CommandError::Usage(format!("the arguments are not a JSON object: {error}"))
            })?;
            let mut body = json!({ "tool": tool, "args": args });
            if let Some(target) = target {
                body["target_id"] = json!(target);
            }
            let client = remote.client(context)?;
            let result = client.send(Method::POST, "/api/mcp/invoke?wait=true", Some(&body)).await?;
            match context.output {
                output::Format::Json => output::print(context.output, &[], &result),
                // A command's own output is what a person wants to see of it; other results stay JSON.
                output::Format::Table => match result["structuredContent"]["stdout"].as_str() {
                    Some(stdout) => output::line(stdout.trim_end()),
                    None => output::line(&format!("{:#}", result["structuredContent"])),
                },
            }
            Ok(())
        }
    }
}
