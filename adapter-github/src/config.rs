//! What can be set for a GitHub adapter.

use std::time::Duration;

use serde::Deserialize;

/// The API of GitHub.com.
pub const DEFAULT_BASE_URL: &str = "https://api.github.com";

/// Options of one adapter. None can be set by a tenant yet, so any key in a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GithubOptions {
    /// How long one call or one check may take, waits and retries included.
    #[serde(skip)]
    pub budget: Duration,
}

impl Default for GithubOptions {
    fn default() -> Self {
        Self { budget: Duration::from_secs(10) }
    }
}

/// The base URL of the API: that of GitHub.com when none is given, or when its website is given in place of its API.
///
/// For GitHub Enterprise Server the base is `https://HOST/api/v3`, and is taken as written.
#[must_use]
pub fn base_url(given: Option<&str>) -> &str {
    match given.map(|url| (url, url.trim_end_matches('/'))) {
        None => DEFAULT_BASE_URL,
        Some((_, site)) if site.eq_ignore_ascii_case("https://github.com") => DEFAULT_BASE_URL,
        Some((url, _)) => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_website_stands_for_its_api_and_a_server_is_taken_as_written() {
        assert_eq!(base_url(None), DEFAULT_BASE_URL);
        assert_eq!(base_url(Some("https://GitHub.com/")), DEFAULT_BASE_URL);
        assert_eq!(base_url(Some("https://ghe.example/api/v3")), "https://ghe.example/api/v3");
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused() {
        let read = |text| serde_json::from_str::<GithubOptions>(text);
        assert_eq!(read("{}").expect("options"), GithubOptions::default());
        for unknown in [r#"{"budget": 100}"#, r#"{"verify": false}"#] {
            assert!(read(unknown).is_err(), "{unknown}");
        }
    }
}
