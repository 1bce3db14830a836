//! What an admin can tell this kind of adapter.

use serde::{Deserialize, Serialize};

/// The `options` of a Proxmox VE configuration. An option that does not exist is refused, not ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxmoxOptions {
    /// Takes a token that may do more than read: the check then warns where it would fail. The adapter still only reads,
    /// but whoever steals such a token can do more.
    pub allow_overprivileged: bool,
}

/// The base that paths are put behind, from what an admin typed: `/api2/json`, which many write as part of the address,
/// is ours to add.
#[must_use]
pub fn base_url(typed: &str) -> &str {
    let trimmed = typed.trim().trim_end_matches('/');
    trimmed.strip_suffix("/api2/json").unwrap_or(trimmed).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves: P-02
    #[test]
    fn the_address_may_be_typed_with_or_without_the_path() {
        for typed in [
            "https://pve:8006",
            " https://pve:8006/ ",
            "https://pve:8006/api2/json",
            "https://pve:8006/api2/json/",
        ] {
            assert_eq!(base_url(typed), "https://pve:8006", "{typed}");
        }
        assert_eq!(base_url("https://proxy/pve/api2/json"), "https://proxy/pve");
    }

    #[test]
    fn options_are_strict_and_default_to_no() {
        let read = |options| serde_json::from_value::<ProxmoxOptions>(options);
        assert!(!read(json!({})).expect("read").allow_overprivileged);
        assert!(read(json!({"allow_overprivileged": true})).expect("read").allow_overprivileged);
        assert!(read(json!({"allow_overprivileged": "yes"})).is_err());
        assert!(read(json!({"insecure": true})).is_err());
    }
}
