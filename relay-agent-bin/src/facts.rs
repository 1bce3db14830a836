//! What the agent says of its host. Shown to people; decides nothing.

use std::fs;

use mcp_core::relay::HostFacts;

/// Reads the facts of this host. What cannot be found out is an empty text.
#[must_use]
pub fn host_facts() -> HostFacts {
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    HostFacts {
        hostname: hostname.trim().to_owned(),
        os: pretty_name(&release).unwrap_or_default(),
        ip: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
    .bounded()
}

/// `PRETTY_NAME` of an os-release file. Its values may stand in quotes.
fn pretty_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    Some(value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_system_is_found() {
        let release = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        assert_eq!(pretty_name(release).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(pretty_name("PRETTY_NAME='A'").as_deref(), Some("A"));
        assert_eq!(pretty_name("PRETTY_NAME=Plain").as_deref(), Some("Plain"));
        assert_eq!(pretty_name("ID=x"), None);
    }

    #[test]
    fn this_host_has_a_name_and_this_agent_a_version() {
        let facts = host_facts();
        assert!(!facts.hostname.is_empty() && !facts.hostname.contains('\n'));
        assert_eq!(facts.version, env!("CARGO_PKG_VERSION"));
    }
}
