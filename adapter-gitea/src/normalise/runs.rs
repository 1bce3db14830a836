//! Pages of `/actions/runs`, in Gitea's form and in Forgejo's.

use mcp_core::error::AdapterError;
use mcp_core::tool::gitea::CiRun;
use serde::Deserialize;
use serde_json::Value;

use super::{RawUser, native, page, read, said, settled, time};
use upstream::lenient;

/// One page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// How many runs there are in all, as the server counts.
    pub total_count: Option<u64>,
    /// The runs of this page.
    pub runs: Vec<CiRun>,
}

/// Reads the answer of `/repos/{owner}/{repo}/actions/runs`. Which of the two forms an item has is told by its fields:
/// versions of the two products do not compare.
///
/// # Errors
/// [`AdapterError::Malformed`] when it is anything but a page of runs.
pub fn runs(body: &[u8]) -> Result<RunPage, AdapterError> {
    let raw: RawPage = read(body)?;
    // A Go server writes a list without items as null.
    let items = raw.workflow_runs.unwrap_or_default();
    let runs = items.into_iter().map(run).collect::<Result<_, _>>()?;
    Ok(RunPage { total_count: raw.total_count, runs })
}

fn run(item: Value) -> Result<CiRun, AdapterError> {
    let forgejo = item.get("index_in_repo").is_some() || item.get("prettyref").is_some();
    let run = if forgejo {
        ForgejoRun::deserialize(item).map(ForgejoRun::normalised)
    } else {
        GiteaRun::deserialize(item).map(GiteaRun::normalised)
    };
    run.map_err(|_| AdapterError::Malformed)
}

#[derive(Deserialize)]
struct RawPage {
    #[serde(default, deserialize_with = "lenient::optional_number")]
    total_count: Option<u64>,
    #[serde(deserialize_with = "present")]
    workflow_runs: Option<Vec<Value>>,
}

/// The field must stand there, be it as null.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Value>>, D::Error> {
    Option::deserialize(deserializer)
}

#[derive(Deserialize)]
struct GiteaRun {
    #[serde(deserialize_with = "lenient::number")]
    id: u64,
    #[serde(default, deserialize_with = "lenient::optional_number")]
    run_number: Option<u64>,
    path: Option<String>,
    display_title: Option<String>,
    head_branch: Option<String>,
    head_sha: Option<String>,
    event: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    started_at: Option<String>,
    completed_at: Option<String>,
    actor: Option<RawUser>,
    trigger_actor: Option<RawUser>,
}

impl GiteaRun {
    fn normalised(self) -> CiRun {
        let (status, conclusion) = settled(self.status, self.conclusion);
        CiRun {
            id: Some(self.id),
            run_number: self.run_number,
            name: workflow(self.path).or_else(|| said(self.display_title)),
            head_branch: said(self.head_branch),
            head_sha: said(self.head_sha),
            event: said(self.event),
            status,
            conclusion,
            html_url: page(self.html_url),
            created_at: time(self.created_at).or_else(|| time(self.started_at)),
            updated_at: time(self.updated_at).or_else(|| time(self.completed_at)),
            actor: self.actor.or(self.trigger_actor).map(|actor| actor.login),
        }
    }
}

/// `ci.yml` of `ci.yml@refs/heads/main`.
fn workflow(path: Option<String>) -> Option<String> {
    let path = said(path)?;
    let file = path.split_once('@').map_or(path.as_str(), |(file, _)| file);
    said(Some(file.to_owned()))
}

#[derive(Deserialize)]
struct ForgejoRun {
    #[serde(deserialize_with = "lenient::number")]
    id: u64,
    #[serde(default, deserialize_with = "lenient::optional_number")]
    index_in_repo: Option<u64>,
    workflow_id: Option<String>,
    title: Option<String>,
    prettyref: Option<String>,
    commit_sha: Option<String>,
    event: Option<String>,
    trigger_event: Option<String>,
    status: Option<String>,
    html_url: Option<String>,
    created: Option<String>,
    started: Option<String>,
    updated: Option<String>,
    stopped: Option<String>,
    trigger_user: Option<RawUser>,
}

impl ForgejoRun {
    fn normalised(self) -> CiRun {
        let (status, conclusion) = native(self.status);
        CiRun {
            id: Some(self.id),
            run_number: self.index_in_repo,
            name: said(self.workflow_id).or_else(|| said(self.title)),
            head_branch: said(self.prettyref),
            head_sha: said(self.commit_sha),
            event: said(self.event).or_else(|| said(self.trigger_event)),
            status,
            conclusion,
            html_url: page(self.html_url),
            created_at: time(self.created).or_else(|| time(self.started)),
            updated_at: time(self.updated).or_else(|| time(self.stopped)),
            actor: self.trigger_user.map(|user| user.login),
        }
    }
}
