//! `whitelist.json`: what the owner of this host takes away from the six commands.
//!
//! ```json
//! {"version": 1, "commands": ["uptime", "systemctl status"], "arguments": {"deny": ["sshd.service"]}}
//! ```
//!
//! The file can only narrow: it names a subset of the six and unit names to refuse. An entry that means nothing to this
//! version stops the agent at start, because a ban that is silently not applied is worse than an agent that is down.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::Deserialize;

use crate::whitelist::{self, Command, Rejected};

/// The file's version that this agent understands.
const VERSION: u64 = 1;
/// Largest file that is read, bytes.
const LARGEST_FILE: u64 = 64 * 1024;
/// Endings that systemd takes for the type of a unit.
const UNIT_TYPES: [&str; 11] = [
    "automount",
    "device",
    "mount",
    "path",
    "scope",
    "service",
    "slice",
    "socket",
    "swap",
    "target",
    "timer",
];

/// What this host allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPolicy {
    allowed: Vec<Kind>,
    denied_units: Vec<String>,
}

/// Evidence that both the whitelist and this host's policy allow a command. The executor takes nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted(Command);

/// A text that will not run on this host. The words go to the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None of the six commands.
    #[error(transparent)]
    Whitelist(#[from] Rejected),
    /// One of the six, but this host's `whitelist.json` takes it away.
    #[error("the whitelist.json of this host does not allow it")]
    Local,
}

/// `whitelist.json` cannot be used. The agent must not start.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It exists but cannot be read.
    #[error("whitelist.json cannot be read")]
    Unreadable(#[source] std::io::Error),
    /// It is larger than 64 KiB.
    #[error("whitelist.json is larger than 64 KiB")]
    TooLarge,
    /// It is no JSON, or has keys or types that do not belong there.
    #[error("whitelist.json is malformed: {0}")]
    Malformed(String),
    /// It is of another version.
    #[error("whitelist.json has version {0}; this agent knows version 1 only")]
    Version(u64),
    /// It names a command that is none of the six.
    #[error("whitelist.json names the command {0:?}, which is none of the six")]
    UnknownCommand(String),
    /// It denies something that can never be asked for.
    #[error("whitelist.json denies {0:?}, which is not the name of a unit (patterns do not work here)")]
    NotAUnit(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uptime,
    DiskFree,
    MemoryFree,
    UnitStatus,
    Journal,
    ListServices,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    // No default: leaving the list out must not mean "all".
    commands: Vec<String>,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    deny: Vec<String>,
}

impl LocalPolicy {
    /// The policy of a host without a file: all six commands.
    #[must_use]
    pub fn all_six() -> Self {
        Self { allowed: Kind::ALL.to_vec(), denied_units: Vec::new() }
    }

    /// Reads the policy of this host; [`LocalPolicy::all_six`] when there is no such file.
    ///
    /// # Errors
    /// [`PolicyError`] when the file is there and cannot be used.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::all_six()),
            Err(error) => return Err(PolicyError::Unreadable(error)),
        };
        let mut bytes = Vec::new();
        file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(PolicyError::Unreadable)?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(PolicyError::TooLarge);
        }
        Self::from_json(&bytes)
    }

    /// Reads the text of a `whitelist.json`.
    ///
    /// # Errors
    /// [`PolicyError`] when it says anything that this agent does not understand.
    pub fn from_json(bytes: &[u8]) -> Result<Self, PolicyError> {
        // The strict reader refuses a key that stands twice: which of the two would count?
        let value =
            mcp_core::json::parse(bytes).map_err(|error| PolicyError::Malformed(error.to_string()))?;
        // The version comes first: a newer file may have keys that look wrong to us.
        if let Some(version) = value.get("version").and_then(serde_json::Value::as_u64)
            && version != VERSION
        {
            return Err(PolicyError::Version(version));
        }
        let file = File::deserialize(value).map_err(|error| PolicyError::Malformed(error.to_string()))?;
        if file.version != VERSION {
            return Err(PolicyError::Version(file.version));
        }
        let mut policy = Self { allowed: Vec::new(), denied_units: Vec::new() };
        for name in file.commands {
            match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
                Some(kind) if !policy.allowed.contains(&kind) => policy.allowed.push(kind),
                Some(_) => {}
                None => return Err(PolicyError::UnknownCommand(name)),
            }
        }
        for name in file.arguments.deny {
            match whitelist::parse(&format!("systemctl status {name}")) {
                Ok(Command::UnitStatus(unit)) => policy.denied_units.push(full_name(unit.as_str())),
                Ok(_) | Err(_) => return Err(PolicyError::NotAUnit(name)),
            }
        }
        Ok(policy)
    }

    /// Decides about a text that the control plane sent.
    ///
    /// # Errors
    /// [`Refusal`] when the text is none of the six commands or this host does not allow it.
    pub fn admit(&self, text: &str) -> Result<Admitted, Refusal> {
        let command = whitelist::parse(text)?;
        let denied = match &command {
            Command::UnitStatus(unit) => self.denied_units.contains(&full_name(unit.as_str())),
            _ => false,
        };
        if denied || !self.allowed.contains(&Kind::of(&command)) {
            return Err(Refusal::Local);
        }
        Ok(Admitted(command))
    }
}

impl fmt::Display for LocalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of 6 commands, {} units denied", self.allowed.len(), self.denied_units.len())
    }
}

impl Admitted {
    pub(crate) fn command(&self) -> &Command {
        &self.0
    }
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Uptime, Self::DiskFree, Self::MemoryFree, Self::UnitStatus, Self::Journal, Self::ListServices];

    fn of(command: &Command) -> Self {
        match command {
            Command::Uptime => Self::Uptime,
            Command::DiskFree => Self::DiskFree,
            Command::MemoryFree => Self::MemoryFree,
            Command::UnitStatus(_) => Self::UnitStatus,
            Command::Journal(_) => Self::Journal,
            Command::ListServices => Self::ListServices,
        }
    }

    /// How the file names it: the command without its argument.
    fn name(self) -> &'static str {
        match self {
            Self::Uptime => "uptime",
            Self::DiskFree => "df -h",
            Self::MemoryFree => "free -m",
            Self::UnitStatus => "systemctl status",
            Self::Journal => "journalctl -n",
            Self::ListServices => "systemctl list-units --type=service",
        }
    }
}

/// The name as systemctl completes it, so that denying `sshd.service` denies `sshd` as well.
fn full_name(unit: &str) -> String {
    match unit.rsplit_once('.') {
        Some((_, kind)) if UNIT_TYPES.contains(&kind) => unit.to_owned(),
        Some(_) | None => format!("{unit}.service"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Result<LocalPolicy, PolicyError> {
        LocalPolicy::from_json(json.as_bytes())
    }

    // proves: H-06
    #[test]
    fn the_file_narrows_and_never_widens() {
        let narrow = policy(
            r#"{"version":1,"commands":["uptime","systemctl status"],"arguments":{"deny":["sshd","a.socket"]}}"#,
        )
        .unwrap();
        for allowed in
            ["uptime", "systemctl status nginx", "systemctl status a", "systemctl status sshd.socket"]
        {
            assert!(narrow.admit(allowed).is_ok(), "{allowed}");
        }
        for denied in [
            "df -h",
            "free -m",
            "journalctl -n 5",
            "systemctl list-units --type=service",
            "systemctl status sshd",
            "systemctl status sshd.service",
            "systemctl status a.socket",
        ] {
            assert_eq!(narrow.admit(denied), Err(Refusal::Local), "{denied}");
        }
        assert_eq!(narrow.admit("id"), Err(Refusal::Whitelist(Rejected::UnknownCommand)));
        let nothing = policy(r#"{"version":1,"commands":[]}"#).unwrap();
        assert_eq!(nothing.admit("uptime"), Err(Refusal::Local));
    }

    // proves: H-06
    #[test]
    fn what_is_not_understood_stops_the_agent() {
        let refused = |json: &str| policy(json).unwrap_err();
        assert!(matches!(refused(r#"{"version":2,"commands":[],"new":1}"#), PolicyError::Version(2)));
        for unknown in ["id", "systemctl status nginx", "systemctl restart", "UPTIME", "uptime ", ""] {
            let json = serde_json::json!({"version": 1, "commands": [unknown]}).to_string();
            assert!(matches!(refused(&json), PolicyError::UnknownCommand(name) if name == unknown));
        }
        for pattern in ["ssh*", "", "-H", "^sshd$", "22"] {
            let json = serde_json::json!({"version": 1, "commands": [], "arguments": {"deny": [pattern]}})
                .to_string();
            assert!(matches!(refused(&json), PolicyError::NotAUnit(name) if name == pattern));
        }
        for malformed in [
            "",
            "[]",
            "{}",
            r#"{"version":1}"#,
            r#"{"version":"1","commands":[]}"#,
            r#"{"version":1,"commands":["uptime"],"allow":["id"]}"#,
            r#"{"version":1,"commands":[],"arguments":{"allow":[]}}"#,
            r#"{"version":1,"commands":[],"commands":["uptime"]}"#,
        ] {
            assert!(matches!(refused(malformed), PolicyError::Malformed(_)), "{malformed}");
        }
    }

    #[test]
    fn no_file_means_all_six_and_a_broken_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whitelist.json");
        assert_eq!(LocalPolicy::load(&path).unwrap(), LocalPolicy::all_six());
        std::fs::write(&path, " ".repeat(70_000)).unwrap();
        assert!(matches!(LocalPolicy::load(&path), Err(PolicyError::TooLarge)));
        assert!(matches!(LocalPolicy::load(dir.path()), Err(PolicyError::Unreadable(_))));
    }
}
