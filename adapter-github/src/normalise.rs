//! GitHub's answers, made small: 12 KB of a run become one row of twelve fields.
//!
//! Everything here takes bytes and touches no network. Whatever GitHub documents as nullable may be null or missing;
//! only what identifies a row is required. Casing is kept as it came.

use mcp_core::error::AdapterError;
use mcp_core::tool::github::{CiRun, Repo};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use upstream::lenient;

/// One page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// How many runs match in all; GitHub counts no further than 1,000 when a filter is set.
    pub total_count: u64,
    /// The runs of this page, newest first.
    pub runs: Vec<CiRun>,
}

/// Reads the answer of `/user/repos`.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a list of repositories.
pub fn repos(body: &[u8]) -> Result<Vec<Repo>, AdapterError> {
    let rows: Vec<RawRepo> = read(body)?;
    Ok(rows.into_iter().map(RawRepo::normalised).collect())
}

/// Reads the answer of `/repos/{owner}/{repo}/actions/runs`.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a page of runs.
pub fn runs(body: &[u8]) -> Result<RunPage, AdapterError> {
    let page: RawRunPage = read(body)?;
    let runs: Vec<_> = page.workflow_runs.into_iter().map(RawRun::normalised).collect();
    Ok(RunPage { total_count: page.total_count.unwrap_or(runs.len() as u64), runs })
}

/// Reads the answer of `/repos/{owner}/{repo}/actions/runs/{id}`.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a run.
pub fn run(body: &[u8]) -> Result<CiRun, AdapterError> {
    read::<RawRun>(body).map(RawRun::normalised)
}

/// Reads who the token belongs to, from the answer of `/user`.
pub(crate) fn login(body: &[u8]) -> Result<String, AdapterError> {
    read::<RawUser>(body).map(|user| user.login)
}

/// The reader bounds the depth of nesting at 128, and its own words, which may quote the body, end here.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AdapterError> {
    serde_json::from_slice(body).map_err(|_| AdapterError::Malformed)
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
            updated_at: said(self.updated_at),
        }
    }
}

#[derive(Deserialize)]
struct RawRunPage {
    #[serde(default, deserialize_with = "lenient::optional_number")]
    total_count: Option<u64>,
    workflow_runs: Vec<RawRun>,
}

#[derive(Deserialize)]
struct RawRun {
    #[serde(deserialize_with = "lenient::number")]
    id: u64,
    #[serde(default, deserialize_with = "lenient::optional_number")]
    run_number: Option<u64>,
    name: Option<String>,
    head_branch: Option<String>,
    head_sha: Option<String>,
    event: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    actor: Option<RawUser>,
}

impl RawRun {
    fn normalised(self) -> CiRun {
        CiRun {
            id: self.id,
            run_number: self.run_number,
            name: said(self.name),
            head_branch: said(self.head_branch),
            head_sha: said(self.head_sha),
            event: said(self.event),
            status: said(self.status),
            conclusion: said(self.conclusion),
            html_url: page(self.html_url),
            created_at: said(self.created_at),
            updated_at: said(self.updated_at),
            actor: self.actor.map(|actor| actor.login),
        }
    }
}

fn said(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A link that a browser may be given. A server that is not GitHub's could send a script in place of one.
fn page(url: Option<String>) -> Option<String> {
    url.filter(|url| url.starts_with("https://") || url.starts_with("http://"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

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
            ["null", "[]", r#"{"total_count":3}"#, r#"{"workflow_runs":[{}]}"#, r#"{"workflow_runs":null}"#]
        {
            assert_eq!(runs(body.as_bytes()), Err(AdapterError::Malformed), "{body}");
        }
        assert_eq!(runs(b"{\"workflow_runs\":[{\"id\":1,\"name\":\"\xff\"}]}"), Err(AdapterError::Malformed));
    }

    // proves: GH-10
    #[test]
    fn a_run_of_nulls_is_a_row_without_those_fields() {
        let body = json!({"id": "9", "name": null, "status": null, "conclusion": null, "head_branch": null,
            "pull_requests": null, "actor": null, "html_url": "javascript:alert(1)"});
        let row = run(body.to_string().as_bytes()).expect("a run");
        assert_eq!(serde_json::to_value(row).expect("json"), json!({"id": 9}));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (repos(&body), runs(&body), run(&body), login(&body));
        }
    }
}
