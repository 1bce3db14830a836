//! The check of a configuration, step by step.

use mcp_core::check::{CheckReport, CheckStep, StepName};
use mcp_core::error::{AdapterError, ErrorCode};
use mcp_core::secret::SecretValue;
use serde_json::json;
use tokio::time::Instant;

use crate::client::{Answer, GiteaClient};
use crate::endpoint::{Endpoint, PageOf};
use crate::error::{forbidden, no_api};
use crate::normalise;
use crate::token::GiteaToken;
use crate::tools::list_repos::SCOPES;
use crate::version::{Product, ServerVersion};
use upstream::reach;

const GRANT: &str = "create an access token with the scopes read:user and read:repository";

/// Takes the steps. The first one that fails ends the check.
pub(crate) async fn check(client: &GiteaClient, credential: &SecretValue, deadline: Instant) -> CheckReport {
    let mut report = CheckReport::default();
    #[expect(clippy::disallowed_methods, reason = "its form is checked before it enters a request")]
    let token = match GiteaToken::parse(credential.reveal()) {
        Ok(token) => token,
        Err(error) => {
            report.steps.push(CheckStep::fail(StepName::Auth, error.to_string(), GRANT));
            report.code = Some(ErrorCode::ConfigRefused);
            return report;
        }
    };
    if !reach::take_steps(client.http(), deadline, &mut report).await {
        return report;
    }
    let mut checking = Checking { client, token: &token, deadline, report };
    if checking.repositories().await {
        checking.version().await;
    }
    checking.report
}

struct Checking<'a> {
    client: &'a GiteaClient,
    token: &'a GiteaToken,
    deadline: Instant,
    report: CheckReport,
}

impl Checking<'_> {
    /// One request proves that the token is live and that it holds both scopes; its refusal tells which of the two
    /// it was about.
    async fn repositories(&mut self) -> bool {
        let listed = Endpoint::UserRepos(PageOf { page: 1, limit: 1 });
        match self.ask(&listed).await {
            Ok(Answer::Page(page)) => match normalise::repos(page.body()) {
                Ok(repos) => self.may_list(!repos.is_empty()),
                Err(error) => return self.fail(StepName::Auth, &error),
            },
            Ok(Answer::Forbidden(scopes)) => return self.lacks_scopes(scopes).await,
            Ok(Answer::NotThere) => return self.search(&no_api()).await,
            Err(error @ AdapterError::Upstream(_)) => return self.search(&error).await,
            Err(error) => return self.fail(StepName::Auth, &error),
        }
        true
    }

    fn may_list(&mut self, any: bool) {
        self.report.steps.push(CheckStep::ok(StepName::Auth, "the token is live"));
        self.report.steps.push(if any {
            CheckStep::ok(StepName::Permissions, "repositories can be listed (read:user, read:repository)")
        } else {
            CheckStep::warn(
                StepName::Permissions,
                "the token holds read:user and read:repository, but its user has no repository",
                "give the token's user access to the repositories that should be visible",
            )
        });
    }

    /// The server names one scope at a time; the search needs the other one alone, so both can be named at once.
    async fn lacks_scopes(&mut self, scopes: Option<String>) -> bool {
        self.report.steps.push(CheckStep::ok(StepName::Auth, "the token is live"));
        let search = self.ask(&Endpoint::AnyRepo).await;
        let named = match (scopes, search) {
            (Some(one), Ok(Answer::Forbidden(Some(other)))) if one != other => {
                Some(format!("{one}, {other}"))
            }
            (one, _) => one,
        };
        self.fail(StepName::Permissions, &forbidden(named, SCOPES))
    }

    /// The list itself does not work, for a reason that is not the token's. The search tells whether the rest does.
    async fn search(&mut self, first: &AdapterError) -> bool {
        match self.ask(&Endpoint::AnyRepo).await {
            Ok(Answer::Page(_)) => {
                self.report.steps.push(CheckStep::ok(StepName::Auth, "the server takes the token"));
                self.report.steps.push(CheckStep::warn(
                    StepName::Permissions,
                    format!("partial: repositories can be searched but not listed: {first}"),
                    "runs can be read; to list repositories, look at the server",
                ));
                true
            }
            Ok(Answer::Forbidden(scopes)) => self.fail(StepName::Permissions, &forbidden(scopes, SCOPES)),
            Ok(Answer::NotThere) | Err(AdapterError::Upstream(_)) => self.fail(StepName::Auth, first),
            Err(error) => self.fail(StepName::Auth, &error),
        }
    }

    /// Gitea 1.20.0 wants `read:misc` for its version (go-gitea#26035) and tells it to anybody who sends no token; a
    /// server that wants a login tells it only with one. No version at all is no failure.
    async fn version(&mut self) {
        let mut answer = self.ask(&Endpoint::Version).await;
        if matches!(answer, Ok(Answer::Forbidden(_))) {
            answer = self.client.ask(&Endpoint::Version, None, self.deadline).await;
        }
        let text = match answer {
            Ok(Answer::Page(page)) => normalise::version(page.body()).ok(),
            Ok(Answer::Forbidden(_) | Answer::NotThere) | Err(_) => None,
        };
        let Some(text) = text else {
            self.report.steps.push(CheckStep::ok(StepName::Version, "the server does not tell its version"));
            return;
        };
        let version = ServerVersion::parse(&text);
        let product = match version.product {
            Product::Gitea => "Gitea",
            Product::Forgejo => "Forgejo",
            Product::Unknown => "Gitea or Forgejo",
        };
        let facts = &mut self.report.facts;
        facts.insert("product".to_owned(), json!(product));
        facts.insert("version".to_owned(), json!(version.version));
        if let Some(gitea) = &version.gitea {
            facts.insert("gitea_version".to_owned(), json!(gitea));
        }
        let note = match version.gitea_major_minor() {
            Some(numbers) if version.product == Product::Gitea && numbers < (1, 23) => {
                "; it has no API for Actions runs, which came with Gitea 1.23"
            }
            _ => "",
        };
        self.report.steps.push(CheckStep::ok(StepName::Version, format!("{version}{note}")));
    }

    async fn ask(&self, endpoint: &Endpoint) -> Result<Answer, AdapterError> {
        self.client.ask(endpoint, Some(self.token), self.deadline).await
    }

    fn fail(&mut self, step: StepName, error: &AdapterError) -> bool {
        let fix = match error {
            AdapterError::UpstreamAuth => "the token is wrong, revoked or expired: create a new one",
            AdapterError::InsufficientScope { .. } => GRANT,
            AdapterError::NotFound(_) => "correct the base URL: the address of the website, without /api/v1",
            _ => "try again; if it stays, look at the upstream and at the network between",
        };
        self.report.steps.push(CheckStep::fail(step, error.to_string(), fix));
        self.report.code = Some(error.code());
        false
    }
}
