//! Answers of Gitea and Forgejo, made small and brought into one form.
//!
//! Everything here takes bytes and touches no network. Only what identifies a row is required; times at the Unix epoch
//! mean that there is no such time yet, and are left out.

mod runs;
mod tasks;

use mcp_core::error::AdapterError;
use mcp_core::tool::gitea::Repo;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use self::runs::{RunPage, runs};
pub use self::tasks::{Task, TaskPage, grouped, tasks};
use upstream::lenient;

/// Reads the answer of `/user/repos`.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a list of repositories.
pub fn repos(body: &[u8]) -> Result<Vec<Repo>, AdapterError> {
    let rows: Vec<RawRepo> = read(body)?;
    Ok(rows.into_iter().map(RawRepo::normalised).collect())
}

/// Reads the version out of the answer of `/version`.
pub(crate) fn version(body: &[u8]) -> Result<String, AdapterError> {
    read::<RawVersion>(body).map(|version| version.version)
}

/// Reads whether a repository has Actions; nothing when the server does not say.
pub(crate) fn has_actions(body: &[u8]) -> Result<Option<bool>, AdapterError> {
    read::<RawFeatures>(body).map(|features| features.has_actions)
}

/// The reader bounds the depth of nesting at 128, and its own words, which may quote the body, end here.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AdapterError> {
    serde_json::from_slice(body).map_err(|_| AdapterError::Malformed)
}

#[derive(Deserialize)]
struct RawVersion {
    version: String,
}

#[derive(Deserialize)]
struct RawFeatures {
    has_actions: Option<bool>,
}

#[derive(Deserialize)]
struct RawUser {
    login: String,
}

#[derive(Deserialize)]
struct RawRepo {
    #[serde(deserialize_with = "lenient::number")]
    id: u64,
    name: String,
    full_name: String,
    owner: Option<RawUser>,
    private: Option<bool>,
    description: Option<String>,
    html_url: Option<String>,
    default_branch: Option<String>,
    updated_at: Option<String>,
}

impl RawRepo {
    fn normalised(self) -> Repo {
        let owner = self.owner.map(|owner| owner.login).or_else(|| {
            let (owner, _) = self.full_name.split_once('/')?;
            Some(owner.to_owned())
        });
        Repo {
            id: self.id,
            name: self.name,
            owner: owner.unwrap_or_default(),
            full_name: self.full_name,
            // What does not say that it is public is not shown as public.
            private: self.private.unwrap_or(true),
            description: said(self.description),
            html_url: page(self.html_url).unwrap_or_default(),
            default_branch: said(self.default_branch),
            updated_at: time(self.updated_at),
        }
    }
}

fn said(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A link that a browser may be given. A server of unknown make could send a script in place of one.
fn page(url: Option<String>) -> Option<String> {
    url.filter(|url| url.starts_with("https://") || url.starts_with("http://"))
}

/// A time that has come. Servers west of Greenwich write their zero on the day before.
fn time(text: Option<String>) -> Option<String> {
    const ZEROS: &[&str] = &["1970-01-01T", "1969-12-31T", "0001-01-01T"];
    said(text).filter(|text| !ZEROS.iter().any(|zero| text.starts_with(zero)))
}

/// The forges' own states, in the words that the GitHub tools use.
fn settled(status: Option<String>, conclusion: Option<String>) -> (Option<String>, Option<String>) {
    let (status, conclusion) = (said(status), said(conclusion));
    let word = match status.as_deref() {
        Some(end @ ("success" | "failure" | "cancelled" | "skipped")) if conclusion.is_none() => {
            return (Some("completed".to_owned()), Some(end.to_owned()));
        }
        Some("running") => Some("in_progress".to_owned()),
        _ => status,
    };
    (word, conclusion)
}

/// As [`settled`], for states of Forgejo's runs and of tasks: there a `waiting` one waits for a runner, and a `blocked`
/// one for another job.
fn native(status: Option<String>) -> (Option<String>, Option<String>) {
    match status.as_deref() {
        Some("waiting") => (Some("queued".to_owned()), None),
        Some("blocked") => (Some("waiting".to_owned()), None),
        _ => settled(status, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: C-N11, C-N13
    #[test]
    fn what_is_not_the_promised_shape_is_malformed() {
        let deep = "[".repeat(100_000);
        for body in
            ["", "null", "{}", "[null]", "<html>Sign in</html>", r#"[{"id":1}]"#, "{\"data\":null}", &deep]
        {
            assert_eq!(repos(body.as_bytes()), Err(AdapterError::Malformed), "{:.40}", body);
        }
        for body in
            ["null", "[]", r#"{"total_count":3}"#, r#"{"workflow_runs":[{}]}"#, r#"{"workflow_runs":[1]}"#]
        {
            assert_eq!(runs(body.as_bytes()), Err(AdapterError::Malformed), "{body}");
            assert_eq!(tasks(body.as_bytes()), Err(AdapterError::Malformed), "{body}");
        }
        assert_eq!(version(b"{\"version\": 1}"), Err(AdapterError::Malformed));
    }

    #[test]
    fn zero_times_are_no_times() {
        for zero in ["", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00+01:00", "1969-12-31T16:00:00-08:00"] {
            assert_eq!(time(Some(zero.to_owned())), None, "{zero}");
        }
        assert!(time(Some("2026-11-30T10:00:00Z".to_owned())).is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (repos(&body), runs(&body), tasks(&body), version(&body), has_actions(&body));
        }
    }
}
