//! The check of a configuration: reach the host, present the token, read what the token may do, note the version.

use egress::UpstreamClient;
use mcp_core::check::{CheckReport, CheckStep, StepName};
use mcp_core::error::{AdapterError, ErrorCode};
use serde::Deserialize;
use serde_json::json;

use crate::adapter::DEADLINE;
use crate::client::PveClient;
use crate::config::ProxmoxOptions;
use crate::dial;
use crate::endpoint::Endpoint;
use crate::error::Trouble;
use crate::lenient::Text;
use crate::nodes::Nodes;
use crate::permissions::Permissions;
use crate::token::{PveToken, TokenFormError};
use crate::verdict::Verdict;

const REFUSED: &str = "check that the token exists, that its user is enabled, that neither has expired, and that the secret is complete";
const ELSEWHERE: &str =
    "check the address: the API of Proxmox VE is usually at https://HOST:8006, without a path";

/// A check under way. The report grows step by step, so that a check that runs out of time still says how far it came.
pub(crate) struct Check<'a> {
    upstream: &'a UpstreamClient,
    options: ProxmoxOptions,
    report: CheckReport,
    at: StepName,
}

/// A step failed and has been reported.
struct Ended;

#[derive(Deserialize)]
struct VersionRow {
    #[serde(default)]
    version: Text,
    #[serde(default)]
    release: Text,
}

impl<'a> Check<'a> {
    pub(crate) fn new(upstream: &'a UpstreamClient, options: ProxmoxOptions) -> Self {
        Self { upstream, options, report: CheckReport::default(), at: StepName::Egress }
    }

    pub(crate) async fn run(mut self, token: Result<PveToken, TokenFormError>) -> CheckReport {
        if tokio::time::timeout(DEADLINE, self.steps(token)).await.is_err() {
            let Ended = self.fail(
                ErrorCode::UpstreamTimeout,
                AdapterError::Timeout.to_string(),
                "check that the host is up and that no firewall drops the connection",
            );
        }
        self.report
    }

    async fn steps(&mut self, token: Result<PveToken, TokenFormError>) -> Result<(), Ended> {
        self.reach().await?;
        self.at = StepName::Auth;
        let token = token.map_err(|form| {
            self.fail(ErrorCode::UpstreamAuth, form.to_string(), "paste the token as Proxmox VE showed it")
        })?;
        let client = PveClient::new(self.upstream, &token);
        self.authenticate(&client).await?;
        self.at = StepName::Permissions;
        let held: Permissions =
            client.get(Endpoint::Permissions).await.map_err(|t| self.trouble(Endpoint::Permissions, &t))?;
        self.judge(&held)?;
        self.at = StepName::Version;
        self.look_around(&client).await
    }

    /// Egress policy, name and certificate, before the token is sent anywhere.
    async fn reach(&mut self) -> Result<(), Ended> {
        let failed = dial::failure(self.upstream.probe_tls().await);
        let failed_at = failed.as_ref().map(dial::step);
        for (step, message) in [
            (StepName::Egress, "the egress policy lets the host be dialled"),
            (StepName::Dns, "the name has addresses, and all of them are allowed"),
            (StepName::Tls, "the certificate is trusted"),
        ] {
            self.at = step;
            if let Some(error) = failed.as_ref().filter(|_| failed_at == Some(step)) {
                self.report.fingerprint = dial::fingerprint(error);
                return Err(self.fail(dial::report(error).code(), error.to_string(), dial::fix(error)));
            }
            self.report.steps.push(CheckStep::ok(step, message));
        }
        Ok(())
    }

    /// `/version` answers to any token that is good, whatever it may do.
    async fn authenticate(&mut self, client: &PveClient<'_>) -> Result<(), Ended> {
        let endpoint = Endpoint::Version;
        let row: VersionRow =
            client.get(endpoint).await.map_err(|trouble| self.trouble(endpoint, &trouble))?;
        let Some(version) = row.version.into_option() else {
            return Err(self.trouble(endpoint, &Trouble::NoData(crate::envelope::NoData)));
        };
        self.report.facts.insert("product".to_owned(), json!("Proxmox VE"));
        self.report.facts.insert("version".to_owned(), json!(fact(version)));
        if let Some(release) = row.release.into_option() {
            self.report.facts.insert("release".to_owned(), json!(fact(release)));
        }
        self.report.steps.push(CheckStep::ok(StepName::Auth, "the token is accepted"));
        Ok(())
    }

    fn judge(&mut self, held: &Permissions) -> Result<(), Ended> {
        let Verdict { step, code, excess } = Verdict::of(held, self.options.allow_overprivileged);
        if !excess.is_empty() {
            self.report.facts.insert("excess_privileges".to_owned(), json!(excess));
        }
        self.report.steps.push(step);
        self.report.code = code;
        if code.is_some() { Err(Ended) } else { Ok(()) }
    }

    async fn look_around(&mut self, client: &PveClient<'_>) -> Result<(), Ended> {
        let nodes = Nodes::fetch(client).await.map_err(|trouble| self.trouble(Endpoint::Nodes, &trouble))?;
        let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
        let offline = nodes.iter().filter(|node| !node.online).count();
        let version =
            self.report.facts.get("version").and_then(|version| version.as_str()).unwrap_or("unknown");
        let message = format!("Proxmox VE {version}; nodes: {}, offline: {offline}", names.len());
        self.report.facts.insert("nodes".to_owned(), json!(names));
        self.report.steps.push(CheckStep::ok(StepName::Version, message));
        Ok(())
    }

    fn trouble(&mut self, endpoint: Endpoint<'_>, trouble: &Trouble) -> Ended {
        let told = trouble.report(endpoint);
        let fix = match (trouble, &told) {
            (Trouble::Egress(error), _) => dial::fix(error),
            (_, AdapterError::UpstreamAuth) => REFUSED.to_owned(),
            (_, AdapterError::Malformed) => ELSEWHERE.to_owned(),
            _ => "check the host with a browser, and what lies between it and us".to_owned(),
        };
        self.fail(told.code(), told.to_string(), fix)
    }

    fn fail(&mut self, code: ErrorCode, message: String, fix: impl Into<String>) -> Ended {
        self.report.code = Some(code);
        self.report.steps.push(CheckStep::fail(self.at, message, fix));
        Ended
    }
}

/// A version is shown to people, and stays a version whatever the upstream sends.
fn fact(text: String) -> String {
    let taken = |c: char| c.is_ascii_alphanumeric() || ".-+~_".contains(c);
    if text.len() <= 64 && text.chars().all(taken) { text } else { "unknown".to_owned() }
}
