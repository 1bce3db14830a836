//! The adapters that this binary has, built from what admins configure.

use std::sync::Arc;

use adapter_gitea::{GiteaAdapter, GiteaOptions, GiteaToken};
use adapter_github::{DEFAULT_BASE_URL, GithubAdapter, GithubOptions, GithubToken};
use adapter_proxmox::{ProxmoxAdapter, ProxmoxOptions, PveToken};
use egress::{EgressPolicy, EgressUrl, Refusal, Resolver, TlsTrust, UpstreamClient};
use mcp_core::adapter_config::{AdapterConfig, AdapterFactory, ConfigRefused, TlsSetting};
use mcp_core::check::{CheckStep, StepName, UpstreamAdapter};
use mcp_core::error::ErrorCode;
use mcp_core::secret::SecretValue;
use mcp_core::tool::AdapterKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Builds adapters over the egress guard.
pub(crate) struct GuardedFactory {
    policy: Arc<EgressPolicy>,
    resolver: Arc<dyn Resolver>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ProxmoxSettings {
    allow_overprivileged: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct NoSettings {}

impl GuardedFactory {
    pub(crate) fn new(policy: Arc<EgressPolicy>, resolver: Arc<dyn Resolver>) -> Self {
        Self { policy, resolver }
    }

    fn client(&self, config: &AdapterConfig) -> Result<UpstreamClient, ConfigRefused> {
        let url = EgressUrl::parse(base_url(config)?, &self.policy).map_err(refused)?;
        let trust = trust(config)?;
        UpstreamClient::new(url, trust, Arc::clone(&self.policy), Arc::clone(&self.resolver)).map_err(
            |error| {
                let fix = "check the certificate settings of this adapter";
                config_refused(CheckStep::fail(StepName::Tls, error.to_string(), fix))
            },
        )
    }
}

impl AdapterFactory for GuardedFactory {
    fn build(&self, config: &AdapterConfig) -> Result<Arc<dyn UpstreamAdapter>, ConfigRefused> {
        match config.kind {
            AdapterKind::Proxmox => {
                let ProxmoxSettings { allow_overprivileged } = options(config)?;
                let options = ProxmoxOptions { allow_overprivileged };
                Ok(Arc::new(ProxmoxAdapter::new(self.client(config)?, options)))
            }
            AdapterKind::Github => {
                let NoSettings {} = options(config)?;
                Ok(Arc::new(GithubAdapter::new(self.client(config)?, GithubOptions::default())))
            }
            AdapterKind::Gitea => {
                let NoSettings {} = options(config)?;
                Ok(Arc::new(GiteaAdapter::new(self.client(config)?, GiteaOptions::default())))
            }
            AdapterKind::Ssh => {
                let fix = "add the host with: control-plane targets enroll NAME";
                let message = "Linux hosts are not configured here; their relay agent enrols them";
                Err(config_refused(CheckStep::fail(StepName::Egress, message, fix)))
            }
        }
    }

    fn check_credential(&self, kind: AdapterKind, credential: &SecretValue) -> Result<(), ConfigRefused> {
        #[expect(clippy::disallowed_methods, reason = "its form is checked before it is stored")]
        let text = credential.reveal();
        let problem = match kind {
            AdapterKind::Proxmox => PveToken::parse(text).err().map(|error| error.to_string()),
            AdapterKind::Github => GithubToken::parse(text).err().map(|error| error.to_string()),
            AdapterKind::Gitea => GiteaToken::parse(text).err().map(|error| error.to_string()),
            AdapterKind::Ssh => None,
        };
        match problem {
            None => Ok(()),
            Some(problem) => {
                let fix = "make a token of the right kind upstream and paste the whole of it";
                Err(config_refused(CheckStep::fail(StepName::Auth, problem, fix)))
            }
        }
    }

    fn destination(&self, config: &AdapterConfig) -> Option<String> {
        let url = EgressUrl::parse(base_url(config).ok()?, &self.policy).ok()?;
        Some(format!("{}:{}", url.host(), url.port()))
    }
}

fn base_url(config: &AdapterConfig) -> Result<&str, ConfigRefused> {
    match (&config.base_url, config.kind) {
        (Some(url), _) => Ok(url),
        (None, AdapterKind::Github) => Ok(DEFAULT_BASE_URL),
        (None, AdapterKind::Proxmox | AdapterKind::Gitea | AdapterKind::Ssh) => {
            let fix = "give base_url, such as https://host.example:8006";
            Err(config_refused(CheckStep::fail(
                StepName::Egress,
                "this kind of adapter needs a base_url",
                fix,
            )))
        }
    }
}

/// GitHub's own service is vouched for by the system's roots, and by nothing that a tenant could say instead (AD-06).
fn trust(config: &AdapterConfig) -> Result<TlsTrust, ConfigRefused> {
    let is_public_github = config.kind == AdapterKind::Github
        && config.base_url.as_deref().is_none_or(|url| url.contains("api.github.com"));
    let refused = |message: String| {
        let fix = "give a CA in PEM, or the SHA-256 fingerprint that the check shows";
        config_refused(CheckStep::fail(StepName::Tls, message, fix))
    };
    match &config.tls {
        TlsSetting::System {} => Ok(TlsTrust::System),
        TlsSetting::CaPem { .. } | TlsSetting::Sha256Pin { .. } if is_public_github => {
            Err(refused("github.com is checked against the system's roots only".to_owned()))
        }
        TlsSetting::CaPem { ca_pem } => TlsTrust::ca_pem(ca_pem).map_err(|error| refused(error.to_string())),
        TlsSetting::Sha256Pin { sha256 } => TlsTrust::pin(sha256).map_err(|error| refused(error.to_string())),
    }
}

fn options<T: DeserializeOwned>(config: &AdapterConfig) -> Result<T, ConfigRefused> {
    serde_json::from_value(Value::Object(config.options.clone())).map_err(|error| {
        let fix = "leave out options that this kind of adapter does not have";
        config_refused(CheckStep::fail(StepName::Egress, format!("options: {error}"), fix))
    })
}

fn refused(refusal: Refusal) -> ConfigRefused {
    let fix = refusal.hint().unwrap_or_else(|| "name a host that this server may reach".to_owned());
    ConfigRefused {
        code: ErrorCode::EgressDenied,
        step: CheckStep::fail(StepName::Egress, refusal.to_string(), fix),
    }
}

fn config_refused(step: CheckStep) -> ConfigRefused {
    ConfigRefused { code: ErrorCode::ConfigRefused, step }
}
