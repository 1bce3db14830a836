//! Where each client keeps its configuration.

use std::path::PathBuf;

use super::clients::Client;
use crate::config::Environment;

/// The systems that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Platform {
    Linux,
    MacOs,
    Windows,
}

impl Platform {
    pub(super) fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// The client's own file for this user; `None` when it has none, or no home is known.
pub(super) fn file_of(client: Client, platform: Platform, environment: &Environment) -> Option<PathBuf> {
    let clients = &environment.clients;
    let home = match platform {
        Platform::Windows => clients.user_profile.clone().or_else(|| environment.home.clone()),
        Platform::Linux | Platform::MacOs => environment.home.clone(),
    };
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    // Where desktop applications keep theirs. A relative XDG directory is to be ignored, says its specification.
    let applications = || match platform {
        Platform::Linux => {
            let named = clients.xdg_config_home.clone().filter(|path| path.is_absolute());
            named.or_else(|| below_home(".config"))
        }
        Platform::MacOs => below_home("Library/Application Support"),
        Platform::Windows => clients.app_data.clone().or_else(|| below_home("AppData/Roaming")),
    };
    match client {
        Client::ClaudeDesktop => Some(applications()?.join("Claude/claude_desktop_config.json")),
        Client::ClaudeCode => match &clients.claude_config_dir {
            Some(directory) => Some(directory.join(".claude.json")),
            None => below_home(".claude.json"),
        },
        Client::Vscode => Some(applications()?.join("Code/User/mcp.json")),
        Client::Cursor => below_home(".cursor/mcp.json"),
        Client::Codex => {
            Some(clients.codex_home.clone().or_else(|| below_home(".codex"))?.join("config.toml"))
        }
        Client::Inspector | Client::Curl => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::config::ClientHomes;

    fn table(environment: &Environment) -> String {
        let mut lines = Vec::new();
        for client in Client::value_variants() {
            for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
                let file = file_of(*client, platform, environment).map(|path| path.display().to_string());
                lines.push(format!("{client:?} {platform:?}: {}", file.unwrap_or_default()));
            }
        }
        lines.join("\n")
    }

    #[test]
    fn each_client_has_its_place_on_each_system() {
        let plain = Environment { home: Some("/home/u".into()), ..Environment::default() };
        insta::assert_snapshot!("plain", table(&plain));
        let clients = ClientHomes {
            xdg_config_home: Some("/xdg".into()),
            app_data: Some("/appdata".into()),
            user_profile: Some("/profile".into()),
            claude_config_dir: Some("/claude".into()),
            codex_home: Some("/codex".into()),
        };
        insta::assert_snapshot!("named", table(&Environment { clients, ..plain.clone() }));
        let odd = ClientHomes { xdg_config_home: Some("relative".into()), ..ClientHomes::default() };
        assert_eq!(
            table(&Environment { clients: odd, ..plain }),
            table(&Environment { home: Some("/home/u".into()), ..Environment::default() })
        );
        assert_eq!(file_of(Client::Cursor, Platform::Linux, &Environment::default()), None);
    }
}
