//! The check of a configuration, step by step.

use mcp_core::check::{CheckReport, CheckStep, StepName};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::secret::SecretValue;
use mcp_core::tool::github::Repo;
use serde_json::json;
use tokio::time::Instant;

use crate::client::{API_VERSION, GithubClient, success};
use crate::endpoint::{Endpoint, RepoPath, RunFilter};
use crate::error::Failure;
use crate::normalise;
use crate::token::GithubToken;
use upstream::reach::{self, header};

const GRANT: &str =
    "grant the token Metadata: read and Actions: read for the repositories that should be visible";

/// Takes the steps. The first one that fails ends the check.
pub(crate) async fn check(client: &GithubClient, credential: &SecretValue, deadline: Instant) -> CheckReport {
    let mut report = CheckReport::default();
    // A token of the wrong kind is refused before anything is dialled, but reported where it belongs.
    #[expect(clippy::disallowed_methods, reason = "its form is checked before it enters a request")]
    let token = match GithubToken::parse(credential.reveal()) {
        Ok(token) => token,
        Err(error) => {
            fail(&mut report, StepName::Auth, error.to_string(), FINE_GRAINED, ErrorCode::ConfigRefused);
            return report;
        }
    };
    if !reach::take_steps(client.http(), deadline, &mut report).await {
        return report;
    }
    let mut checking = Checking { client, token: &token, deadline, report };
    if checking.auth().await && checking.permissions().await {
        checking.version();
    }
    checking.report
}

const FINE_GRAINED: &str =
    "create a fine-grained personal access token (github_pat_…) with Metadata: read and Actions: read";

struct Checking<'a> {
    client: &'a GithubClient,
    token: &'a GithubToken,
    deadline: Instant,
    report: CheckReport,
}

impl Checking<'_> {
    /// `/user` answers any live token, and no more than that is concluded from it.
    async fn auth(&mut self) -> bool {
        let login = match self.client.ask(&Endpoint::User, self.token, None, self.deadline).await {
            Ok(response) => {
                self.remember(&response);
                success(&Endpoint::User, &response).and_then(normalise::login).map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        match login {
            Ok(login) => {
                let login: String = login
                    .chars()
                    .filter(|c| c.is_ascii_alphanumeric() || "-_[]".contains(*c))
                    .take(100)
                    .collect();
                self.report
                    .steps
                    .push(CheckStep::ok(StepName::Auth, format!("the token is live; it belongs to {login}")));
                self.report.facts.insert("login".to_owned(), json!(login));
                true
            }
            Err(failure) => self.fail(StepName::Auth, &failure),
        }
    }

    /// Runs of a private repository prove `actions:read`; those of a public one are open to anybody.
    async fn permissions(&mut self) -> bool {
        let listed = match self.client.ask(&Endpoint::UserRepos, self.token, None, self.deadline).await {
            Ok(response) => {
                success(&Endpoint::UserRepos, &response).and_then(normalise::repos).map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        let repos = match listed {
            Ok(repos) => repos,
            Err(failure) => return self.fail(StepName::Permissions, &failure),
        };
        let step = match repos.iter().find(|repo| repo.private).or_else(|| repos.first()) {
            None => CheckStep::warn(
                StepName::Permissions,
                "the token sees no repository, so Actions: read is not proven",
                GRANT,
            ),
            Some(repo) => self.runs_of(repo).await,
        };
        self.report.steps.push(step);
        true
    }

    async fn runs_of(&self, repo: &Repo) -> CheckStep {
        let Some(path) = RepoPath::parse(&repo.owner, &repo.name) else {
            return CheckStep::warn(
                StepName::Permissions,
                "the first repository has an unexpected name, so Actions: read is not proven",
                GRANT,
            );
        };
        let name = path.full_name();
        let endpoint = Endpoint::Runs(path, RunFilter { per_page: 1, status: None, branch: None });
        let asked = self.client.ask(&endpoint, self.token, None, self.deadline).await;
        let proven = asked
            .map_err(Failure::for_call)
            .and_then(|response| success(&endpoint, &response).and_then(normalise::runs).map(drop));
        match proven {
            Ok(()) if repo.private => {
                CheckStep::ok(StepName::Permissions, format!("workflow runs of {name} can be read"))
            }
            Ok(()) => CheckStep::warn(
                StepName::Permissions,
                format!(
                    "partial: workflow runs of {name} can be read, but it is public, so Actions: read is not proven"
                ),
                GRANT,
            ),
            Err(error) => CheckStep::warn(
                StepName::Permissions,
                format!(
                    "partial: repositories can be listed, but the workflow runs of {name} cannot be read: {error}"
                ),
                GRANT,
            ),
        }
    }

    fn version(&mut self) {
        let message = match self.report.facts.get("version").and_then(|version| version.as_str()) {
            Some(version) => format!("GitHub Enterprise Server {version}, REST API {API_VERSION}"),
            None => format!("GitHub, REST API {API_VERSION}"),
        };
        self.report.steps.push(CheckStep::ok(StepName::Version, message));
    }

    /// Keeps what the headers of an answer tell: the server's version and when the token ends.
    fn remember(&mut self, response: &egress::Response) {
        let mut keep = |fact: &str, name: &str| {
            let text = header(response, name).map(|text| {
                text.chars()
                    .filter(|c| c.is_ascii_alphanumeric() || " :+-._".contains(*c))
                    .take(64)
                    .collect::<String>()
            });
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                self.report.facts.insert(fact.to_owned(), json!(text));
            }
        };
        keep("token_expires_at", "github-authentication-token-expiration");
        keep("version", "x-github-enterprise-version");
        let product =
            if self.report.facts.contains_key("version") { "GitHub Enterprise Server" } else { "GitHub" };
        self.report.facts.insert("product".to_owned(), json!(product));
        self.report.facts.insert("api_version".to_owned(), json!(API_VERSION));
    }

    fn fail(&mut self, step: StepName, failure: &Failure) -> bool {
        let (code, fix) = match failure {
            Failure::TokenKind => (ErrorCode::ConfigRefused, FINE_GRAINED),
            Failure::Adapter(error) => (error.code(), fix(error)),
        };
        fail(&mut self.report, step, failure.to_string(), fix, code);
        false
    }
}

fn fix(error: &AdapterError) -> &'static str {
    match error {
        AdapterError::UpstreamAuth => "the token is wrong, revoked or expired: create a new one",
        AdapterError::InsufficientScope { .. } => GRANT,
        AdapterError::NotFound(_) => "correct the base URL",
        _ => "try again; if it stays, look at the upstream and at the network between",
    }
}

fn fail(report: &mut CheckReport, step: StepName, message: String, fix: &str, code: ErrorCode) {
    report.steps.push(CheckStep::fail(step, message, fix));
    report.code = Some(code);
}
