//! The control plane as a client is told of it: its address, the name it gets there, and where its key is.

use std::path::Path;

use mcp_core::secret::SecretValue;

use crate::cli::remote::Remote;
use crate::cli::{CommandError, Context};
use crate::client::{ClientError, Place};
use crate::config::PublicUrl;
use crate::dev::KEY_FILE;

/// Most letters of a name. Clients put `mcp__NAME__` before a tool's name, and model APIs end a function's name at 64.
const NAME_MAX: usize = 24;

/// What an entry in a client's configuration is made of. Everything in it may stand in JSON, TOML and a shell's double
/// quotes as it is, paths aside.
pub(super) struct Server {
    /// Address of the MCP endpoint.
    pub(super) url: String,
    /// Whether the key would travel in the clear to another machine.
    pub(super) is_exposed: bool,
    /// Name of the entry.
    pub(super) name: String,
    /// Where the key is.
    pub(super) key: Key,
    /// Authority that signed the server's certificate, when no public one did.
    pub(super) ca_file: Option<String>,
}

/// Where the key is.
pub(super) enum Key {
    /// In a file, and this is what it holds.
    File(String, SecretValue),
    /// In `CORECI_API_KEY`.
    Environment(SecretValue),
    /// Nobody said. Most clients ask, or take it from a variable later.
    Unknown,
}

impl Server {
    /// What the flags and the environment name, or else what `dev` left in the data directory.
    pub(super) fn find(remote: &Remote, name: &str, context: &Context) -> Result<Self, CommandError> {
        let (url, key) = match (&remote.url, &remote.key_file, &context.environment.api_key) {
            (Some(url), Some(file), _) => {
                let place = Place::find(Some(url), Some(file), &context.data)?;
                (place.url, Key::File(absolute(file)?, place.key))
            }
            (Some(url), None, Some(key)) => (url.clone(), Key::Environment(key.clone())),
            (Some(url), None, None) => (url.clone(), Key::Unknown),
            (None, Some(_), _) => return Err(ClientError::Incomplete.into()),
            (None, None, _) => {
                let dev = Place::find(None, None, &context.data)?;
                let file = context.data.path().join(KEY_FILE);
                let place = Place::find(Some(&dev.url), Some(&file), &context.data)?;
                (place.url, Key::File(absolute(&file)?, place.key))
            }
        };
        if let Key::File(_, secret) | Key::Environment(secret) = &key {
            check_key(secret)?;
        }
        let origin = parse_url(&url)?;
        let is_exposed = origin.as_str().starts_with("http://") && !is_loopback(origin.host());
        Ok(Self {
            url: format!("{}/mcp", origin.as_str()),
            is_exposed,
            name: parse_name(name)?,
            key,
            ca_file: remote.ca_file.as_deref().map(absolute).transpose()?,
        })
    }

    /// The environment variable from which a client takes the key. Another name has another key.
    pub(super) fn variable(&self) -> String {
        format!("{}_API_KEY", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// The file that holds the key.
    pub(super) fn key_file(&self) -> Option<&str> {
        match &self.key {
            Key::File(path, _) => Some(path),
            Key::Environment(_) | Key::Unknown => None,
        }
    }

    /// The value of an `Authorization` header, key and all.
    pub(super) fn authorization(&self) -> Option<String> {
        match &self.key {
            Key::File(_, key) | Key::Environment(key) => {
                #[expect(clippy::disallowed_methods, reason = "--embed-key asks for the key itself")]
                let key = key.reveal();
                Some(format!("Bearer {key}"))
            }
            Key::Unknown => None,
        }
    }
}

/// A URL that names a server, of letters that mean nothing to a shell.
fn parse_url(text: &str) -> Result<PublicUrl, CommandError> {
    let is_plain =
        |url: &PublicUrl| url.host().chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
    PublicUrl::parse(text).ok().filter(is_plain).ok_or_else(|| {
        CommandError::Usage(
            "--url takes http:// or https://, a host and perhaps a port; /mcp is added to it".to_owned(),
        )
    })
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn parse_name(name: &str) -> Result<String, CommandError> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if starts && is_plain && name.len() <= NAME_MAX {
        return Ok(name.to_owned());
    }
    Err(CommandError::Usage(format!(
        "--name takes up to {NAME_MAX} letters, digits, hyphens and underscores, a letter first"
    )))
}

/// Keys and access tokens are of these letters (RFC 6750), none of which ends a quotation.
fn check_key(key: &SecretValue) -> Result<(), CommandError> {
    #[expect(clippy::disallowed_methods, reason = "looked at, and kept")]
    let key = key.reveal();
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c));
    if is_plain && !key.is_empty() {
        return Ok(());
    }
    Err(CommandError::Usage("what should be an API key is none: it holds other characters".to_owned()))
}

/// Clients start elsewhere, so a path must not depend on where we stand.
fn absolute(path: &Path) -> Result<String, CommandError> {
    let absolute = std::path::absolute(path).ok();
    let text = absolute.and_then(|path| path.into_os_string().into_string().ok());
    text.ok_or_else(|| {
        CommandError::Usage(format!("{} cannot stand in a client's configuration", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::catalogue;

    use super::*;

    #[test]
    fn the_longest_name_leaves_room_for_every_tool() {
        let longest = catalogue().iter().map(|tool| tool.name.wire().len()).max();
        assert!("mcp__".len() + NAME_MAX + "__".len() + longest.expect("nine") <= 64);
        assert!(parse_name(&"a".repeat(NAME_MAX)).is_ok());
        for name in ["", "1a", "a b", "a\"", "a.b", &"a".repeat(NAME_MAX + 1)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_that_a_shell_would_read_passes_for_a_url_or_a_key() {
        for url in ["https://c.example", "http://127.0.0.1:7420", "http://[::1]:1/"] {
            assert!(parse_url(url).is_ok(), "{url}");
        }
        for url in
            ["https://$(id)", "https://a'b", "https://a`b`", "https://c/mcp", "c.example", "https://a;b"]
        {
            assert!(parse_url(url).is_err(), "{url}");
        }
        for key in ["", "a b", "a\nb", "a\"b", "$a"] {
            assert!(check_key(&SecretValue::new(key.to_owned())).is_err(), "{key}");
        }
        assert!(is_loopback("localhost") && is_loopback("[::1]") && is_loopback("127.9.9.9"));
        assert!(!is_loopback("c.example") && !is_loopback("10.0.0.1"));
    }
}
