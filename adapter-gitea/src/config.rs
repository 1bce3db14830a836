//! What can be set for a Gitea or Forgejo adapter.

use std::time::Duration;

use serde::Deserialize;

/// Options of one adapter. None can be set by a tenant yet, so any key in a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GiteaOptions {
    /// How long one call or one check may take, all of its requests together.
    #[serde(skip)]
    pub budget: Duration,
}

impl Default for GiteaOptions {
    fn default() -> Self {
        Self { budget: Duration::from_secs(10) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nobody_reads_is_refused() {
        let read = |text| serde_json::from_str::<GiteaOptions>(text);
        assert_eq!(read("{}").expect("options"), GiteaOptions::default());
        for unknown in [r#"{"budget": 100}"#, r#"{"verify": false}"#] {
            assert!(read(unknown).is_err(), "{unknown}");
        }
    }
}
