//! The adapters that this binary has, built from what admins configure.

use std::sync::Arc;

use adapter_gitea::{GiteaAdapter, GiteaOptions, GiteaToken};
use adapter_github::{GithubAdapter, GithubOptions, GithubToken};
use adapter_proxmox::{ProxmoxAdapter, ProxmoxOptions, PveToken};
use egress::{EgressPolicy, EgressUrl, Refusal, Resolver, TlsTrust, UpstreamClient};
use mcp_core::adapter_config::{AdapterConfig, AdapterFactory, ConfigRefused, TlsSetting};
use mcp_core::check::{CheckStep, StepName, UpstreamAdapter};
use mcp_core::error::ErrorCode;
use mcp_core::secret::SecretValue;
use mcp_core::tool::AdapterKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Hosts of the public service.
const PUBLIC_GITHUB: [&str; 2] = ["api.github.com", "github.com"];

/// Builds adapters over the egress guard.
pub(crate) struct GuardedFactory {
    policy: Arc<EgressPolicy>,
    resolver: Arc<dyn Resolver>,
}

impl GuardedFactory {
    pub(crate) fn new(policy: Arc<EgressPolicy>, resolver: Arc<dyn Resolver>) -> Self {
        Self { policy, resolver }
    }

    fn client(&self, config: &AdapterConfig) -> Result<UpstreamClient, ConfigRefused> {
        let url = EgressUrl::parse(base_url(config)?, &self.policy).map_err(refused)?;
        let trust = trust(config, url.host())?;
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
                let options: ProxmoxOptions = options(config)?;
                Ok(Arc::new(ProxmoxAdapter::new(self.client(config)?, options)))
            }
            AdapterKind::Github => {
                let options: GithubOptions = options(config)?;
                Ok(Arc::new(GithubAdapter::new(self.client(config)?, options)))
            }
            AdapterKind::Gitea => {
                let options: GiteaOptions = options(config)?;
                Ok(Arc::new(GiteaAdapter::new(self.client(config)?, options)))
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
        // The scheme counts, too: a credential that was entered for TLS is not sent in the clear.
        Some(url::Url::parse(&url.to_string()).ok()?.origin().ascii_serialization())
    }
}

fn base_url(config: &AdapterConfig) -> Result<&str, ConfigRefused> {
    match (&config.base_url, config.kind) {
        // Pasted from the browser or from documentation, it may carry the path that the adapter adds itself.
        (Some(url), AdapterKind::Proxmox) => Ok(adapter_proxmox::base_url(url)),
        (given, AdapterKind::Github) => Ok(adapter_github::base_url(given.as_deref())),
        (Some(url), AdapterKind::Gitea | AdapterKind::Ssh) => Ok(url),
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
fn trust(config: &AdapterConfig, host: &str) -> Result<TlsTrust, ConfigRefused> {
    let is_public_github = config.kind == AdapterKind::Github && PUBLIC_GITHUB.contains(&host);
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

#[cfg(test)]
mod tests {
    use egress::SystemResolver;
    use serde_json::json;

    use super::*;

    fn built(config: Value) -> Result<(), ConfigRefused> {
        let factory = GuardedFactory::new(Arc::new(EgressPolicy::default()), Arc::new(SystemResolver));
        let config = serde_json::from_value(config).expect("a configuration");
        factory.build(&config).map(drop)
    }

    // proves: AD-06, C-H04, C-H06, C-H08, C-H09, C-P11
    #[test]
    fn what_could_be_turned_against_us_makes_no_adapter() {
        let pin = json!({"mode": "sha256_pin", "sha256": "ab".repeat(32)});
        assert!(built(json!({"type": "github"})).is_ok());
        assert!(
            built(json!({"type": "github", "base_url": "https://ghes.example/api/v3", "tls": pin})).is_ok()
        );
        assert!(built(json!({"type": "proxmox", "base_url": "https://pve.example:8006/api2/json"})).is_ok());
        for config in [
            json!({"type": "github", "tls": pin}),
            json!({"type": "github", "base_url": "https://API.github.com/", "tls": pin}),
            json!({"type": "gitea"}),
            json!({"type": "gitea", "base_url": "https://169.254.169.254"}),
            json!({"type": "gitea", "base_url": "https://10.0.0.1"}),
            json!({"type": "gitea", "base_url": "https://user@git.example"}),
            json!({"type": "gitea", "base_url": "http://git.example"}),
            json!({"type": "gitea", "base_url": "file:///etc/passwd"}),
            json!({"type": "gitea", "base_url": "https://git.example:22"}),
            json!({"type": "gitea", "base_url": "https://git.example", "options": {"command": "id"}}),
            json!({"type": "gitea", "base_url": "https://git.example", "tls": {"mode": "ca_pem", "ca_pem": "junk"}}),
            json!({"type": "ssh", "base_url": "https://host.example"}),
        ] {
            let refused = built(config.clone()).expect_err(&config.to_string());
            assert!(refused.step.fix.is_some_and(|fix| !fix.is_empty()), "{config}");
        }
    }

    #[test]
    fn a_refused_private_address_says_which_line_would_allow_it() {
        let refused = built(json!({"type": "gitea", "base_url": "https://10.1.2.3"})).expect_err("refused");
        assert_eq!(refused.code, ErrorCode::EgressDenied);
        assert!(refused.step.fix.expect("a fix").contains("10.1.2.3"));
    }
}
