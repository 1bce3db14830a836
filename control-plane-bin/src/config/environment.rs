//! What is read from the environment beside the settings.

use std::ffi::OsString;
use std::path::PathBuf;

use mcp_core::secret::SecretValue;

/// Where programs and homes are, and a key. A variable that is empty counts as absent.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `PATH`.
    pub path: Option<OsString>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    pub xdg_data_home: Option<PathBuf>,
    /// `CORECI_API_KEY`, for `mcp-stdio` and `connect`: a key has no flag.
    pub api_key: Option<SecretValue>,
    /// Where MCP clients keep their settings, for `connect`.
    pub clients: ClientHomes,
}

/// Variables by which MCP clients find their own settings.
#[derive(Debug, Clone, Default)]
pub struct ClientHomes {
    /// `XDG_CONFIG_HOME`: applications on Linux.
    pub xdg_config_home: Option<PathBuf>,
    /// `APPDATA`: applications on Windows.
    pub app_data: Option<PathBuf>,
    /// `USERPROFILE`: the home on Windows.
    pub user_profile: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`: Claude Code.
    pub claude_config_dir: Option<PathBuf>,
    /// `CODEX_HOME`: Codex.
    pub codex_home: Option<PathBuf>,
}

impl Environment {
    /// Reads the environment of this process. This and clap's `env` attributes are the only places that do.
    #[must_use]
    pub fn read() -> Self {
        let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| value(name).map(PathBuf::from);
        Self {
            path: value("PATH"),
            home: path("HOME"),
            xdg_data_home: path("XDG_DATA_HOME"),
            api_key: value("CORECI_API_KEY")
                .and_then(|key| key.into_string().ok())
                .map(|key| SecretValue::new(key.trim().to_owned())),
            clients: ClientHomes {
                xdg_config_home: path("XDG_CONFIG_HOME"),
                app_data: path("APPDATA"),
                user_profile: path("USERPROFILE"),
                claude_config_dir: path("CLAUDE_CONFIG_DIR"),
                codex_home: path("CODEX_HOME"),
            },
        }
    }
}
