//! What each client has to be told, in its own words.

use clap::ValueEnum;
use serde_json::json;

use super::edit::EditError;
use super::json::{JsonEdit, Members};
use super::server::{Key, Server};
use super::toml::TomlEdit;
use crate::cli::CommandError;

/// A client that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Desktop, through the bridge `mcp-stdio`.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Visual Studio Code.
    Vscode,
    /// Cursor.
    Cursor,
    /// Codex.
    Codex,
    /// MCP Inspector.
    Inspector,
    /// curl.
    Curl,
}

/// What makes a client reach the server.
pub(super) enum Setup {
    /// An entry in its configuration.
    Entry(Entry),
    /// A command, for those that keep no configuration.
    Command(String),
}

/// An entry in the language of the client's configuration.
pub(super) enum Entry {
    /// JSON, perhaps with comments.
    Json(JsonEdit),
    /// TOML.
    Toml(TomlEdit),
}

impl Entry {
    /// The text with the entry in it.
    pub(super) fn apply(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Json(edit) => edit.apply(text),
            Self::Toml(edit) => edit.apply(text),
        }
    }
}

impl Client {
    /// Its name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Vscode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Codex => "Codex",
            Self::Inspector => "Inspector",
            Self::Curl => "curl",
        }
    }

    /// What it has to be told. `bridge` is the program to start for clients that start one.
    pub(super) fn setup(self, server: &Server, embed_key: bool, bridge: &str) -> Result<Setup, CommandError> {
        if embed_key && !matches!(self, Self::ClaudeCode | Self::Cursor) {
            return Err(CommandError::Usage(format!(
                "{} needs no --embed-key: it is for claude-code and cursor",
                self.title()
            )));
        }
        let setup = match self {
            Self::ClaudeDesktop => servers(server, bridge_entry(server, bridge)?),
            Self::ClaudeCode => {
                let authorization = match embed_key {
                    true => embedded(server)?,
                    false => format!("Bearer ${{{}}}", server.variable()),
                };
                let headers = json!({ "Authorization": authorization });
                let entry = vec![("type", json!("http")), ("url", json!(server.url)), ("headers", headers)];
                servers(server, entry)
            }
            Self::Vscode => vscode(server),
            Self::Cursor => {
                let authorization = match embed_key {
                    true => embedded(server)?,
                    false => format!("Bearer ${{env:{}}}", server.variable()),
                };
                let headers = json!({ "Authorization": authorization });
                servers(server, vec![("url", json!(server.url)), ("headers", headers)])
            }
            Self::Codex => Setup::Entry(Entry::Toml(TomlEdit {
                name: server.name.clone(),
                entry: vec![("url", server.url.clone()), ("bearer_token_env_var", server.variable())],
            })),
            Self::Inspector => Setup::Command(inspector(server)),
            Self::Curl => Setup::Command(curl(server)),
        };
        Ok(setup)
    }

    /// What is left to do for a person once the configuration is in place.
    pub(super) fn steps(self, server: &Server, embed_key: bool) -> Vec<String> {
        let title = self.title();
        let mut steps = Vec::new();
        match self {
            Self::ClaudeDesktop => steps.push(format!("quit {title} and start it again")),
            Self::ClaudeCode | Self::Cursor | Self::Codex if !embed_key => {
                steps.extend(export(server));
                steps.push(format!("start {title} where the variable is set"));
            }
            Self::ClaudeCode | Self::Cursor | Self::Codex => steps.push(format!("start {title} again")),
            Self::Vscode => steps.push(match server.key_file() {
                Some(file) => format!("{title} asks for the key once: it is in {file}"),
                None => format!("{title} asks for the key once"),
            }),
            Self::Inspector | Self::Curl if server.key_file().is_none() => steps.extend(export(server)),
            Self::Inspector | Self::Curl => {}
        }
        if let Some(file) = &server.ca_file {
            match self {
                Self::ClaudeCode => steps.push(format!("set NODE_EXTRA_CA_CERTS={} there too", quoted(file))),
                Self::Vscode | Self::Cursor | Self::Codex => {
                    steps.push(format!("{title} trusts the authorities of this system: add {file} to them"));
                }
                // The bridge and the commands are given the file.
                Self::ClaudeDesktop | Self::Inspector | Self::Curl => {}
            }
        }
        steps
    }
}

/// The form that most clients share.
fn servers(server: &Server, entry: Members) -> Setup {
    let edit = JsonEdit { section: "mcpServers", name: server.name.clone(), entry, input: None };
    Setup::Entry(Entry::Json(edit))
}

/// Claude Desktop starts programs and hands them nothing of a shell's environment, so the key must lie in a file.
fn bridge_entry(server: &Server, bridge: &str) -> Result<Members, CommandError> {
    let key_file = server.key_file().ok_or_else(|| {
        CommandError::Usage(
            "Claude Desktop does not hand on the environment: put the key into a file that only you can read, and \
             name it with --key-file"
                .to_owned(),
        )
    })?;
    let url = server.url.trim_end_matches("/mcp");
    let mut args = vec!["mcp-stdio", "--url", url, "--key-file", key_file];
    if let Some(file) = &server.ca_file {
        args.extend(["--ca-file", file]);
    }
    Ok(vec![("command", json!(bridge)), ("args", json!(args))])
}

/// VS Code asks for the key itself and keeps it where it keeps secrets.
fn vscode(server: &Server) -> Setup {
    let id = format!("{}-api-key", server.name);
    let headers = json!({ "Authorization": format!("Bearer ${{input:{id}}}") });
    let entry = vec![("type", json!("http")), ("url", json!(server.url)), ("headers", headers)];
    let description = format!("API key for {}", server.url);
    let input = vec![
        ("type", json!("promptString")),
        ("id", json!(id)),
        ("description", json!(description)),
        ("password", json!(true)),
    ];
    let edit = JsonEdit { section: "servers", name: server.name.clone(), entry, input: Some(input) };
    Setup::Entry(Entry::Json(edit))
}

fn embedded(server: &Server) -> Result<String, CommandError> {
    server.authorization().ok_or_else(|| {
        CommandError::Usage("--embed-key needs a key: name its file with --key-file".to_owned())
    })
}

/// The key travels on standard input, since every user of a machine can read the command lines of all.
fn inspector(server: &Server) -> String {
    let ca = server.ca_file.as_ref().map(|file| format!("NODE_EXTRA_CA_CERTS={} ", quoted(file)));
    let (ca, name, url, key) = (ca.unwrap_or_default(), &server.name, &server.url, key_in_shell(server));
    format!(
        "{ca}npx -y @modelcontextprotocol/inspector --cli --config /dev/stdin --server {name} --method tools/list <<EOF\n\
         {{\"mcpServers\": {{\"{name}\": {{\"type\": \"http\", \"url\": \"{url}\", \"headers\": {{\"Authorization\": \"Bearer {key}\"}}}}}}}}\n\
         EOF"
    )
}

fn curl(server: &Server) -> String {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ssh__run_whitelisted_command","arguments":{"command":"uptime"}}}"#;
    format!("{}\n\n{}", post(server, list), post(server, call))
}

fn post(server: &Server, message: &str) -> String {
    let ca = server.ca_file.as_ref().map(|file| format!(" --cacert {}", quoted(file)));
    format!(
        "curl -sS -w '\\n' '{url}'{ca} -H @- -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n  \
         -d '{message}' <<EOF\n\
         Authorization: Bearer {key}\n\
         EOF",
        url = server.url,
        ca = ca.unwrap_or_default(),
        key = key_in_shell(server),
    )
}

/// What a shell puts the key in place of.
fn key_in_shell(server: &Server) -> String {
    match server.key_file() {
        Some(file) => format!("$(cat {})", quoted(file)),
        None => format!("${}", server.variable()),
    }
}

/// How the variable gets its key, unless it has it.
fn export(server: &Server) -> Option<String> {
    let variable = server.variable();
    match &server.key {
        Key::File(file, _) => Some(format!("export {variable}=\"$(cat {})\"", quoted(file))),
        Key::Environment(_) if variable == "CORECI_API_KEY" => None,
        Key::Environment(_) => Some(format!("export {variable}=\"$CORECI_API_KEY\"")),
        Key::Unknown => Some(format!("put an API key into the variable {variable}")),
    }
}

/// A path as one word of a shell.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''"))
}
