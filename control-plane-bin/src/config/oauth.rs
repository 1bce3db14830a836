//! Whose access tokens `/mcp` takes, beside API keys.

use clap::Args;
use identity::oauth::TokenPolicy;
use serde::Deserialize;
use url::Url;

use super::ConfigError;

/// The authorization server whose access tokens `/mcp` takes. Without an issuer it takes API keys only.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuthSettings {
    /// Issuer of access tokens, exactly as its tokens name it.
    #[arg(long = "oauth-issuer", env = "CORECI_OAUTH_ISSUER", value_name = "URL")]
    pub issuer: Option<String>,
    /// What must be among the audiences of a token [default: PUBLIC_URL/mcp].
    #[arg(long = "oauth-audience", env = "CORECI_OAUTH_AUDIENCE", value_name = "TEXT")]
    pub audience: Option<String>,
    /// Where the issuer publishes its keys [default: what its metadata says].
    #[arg(long = "oauth-jwks-url", env = "CORECI_OAUTH_JWKS_URL", value_name = "URL")]
    pub jwks_url: Option<String>,
}

/// An issuer, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// The issuer.
    pub issuer: String,
    /// The audience, when it is not the MCP endpoint's own URL.
    pub audience: Option<String>,
    /// The URL of the keys, when it is not in the issuer's metadata.
    pub jwks_url: Option<String>,
}

impl OAuthSettings {
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            issuer: self.issuer.or(other.issuer),
            audience: self.audience.or(other.audience),
            jwks_url: self.jwks_url.or(other.jwks_url),
        }
    }

    pub(super) fn check(self) -> Result<Option<OAuth>, ConfigError> {
        let Some(issuer) = self.issuer else {
            let is_half = self.audience.is_some() || self.jwks_url.is_some();
            return if is_half { Err(ConfigError::OAuthIssuerMissing) } else { Ok(None) };
        };
        for url in std::iter::once(&issuer).chain(&self.jwks_url) {
            if !names_a_document(url) {
                return Err(ConfigError::OAuthUrl(url.clone()));
            }
        }
        Ok(Some(OAuth { issuer, audience: self.audience, jwks_url: self.jwks_url }))
    }
}

/// https, or http to this machine for trying things out; no user, query or fragment (RFC 8414 §2).
fn names_a_document(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let is_loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    (url.scheme() == "https" || url.scheme() == "http" && is_loopback)
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

impl OAuth {
    /// What tokens must be, where `resource` is the URL of the MCP endpoint.
    #[must_use]
    pub fn policy(&self, resource: String) -> TokenPolicy {
        TokenPolicy {
            issuer: self.issuer.clone(),
            audience: self.audience.clone().unwrap_or(resource),
            jwks_url: self.jwks_url.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: Option<&str>, audience: Option<&str>, jwks: Option<&str>) -> OAuthSettings {
        let text = |text: Option<&str>| text.map(str::to_owned);
        OAuthSettings { issuer: text(issuer), audience: text(audience), jwks_url: text(jwks) }
    }

    // proves: X2-03
    #[test]
    fn an_issuer_is_https_and_half_a_configuration_is_refused() {
        assert_eq!(settings(None, None, None).check().expect("nothing"), None);
        for good in ["https://id.example", "https://id.example/realms/acme", "http://localhost:9000"] {
            let oauth = settings(Some(good), None, None).check().expect(good).expect("an issuer");
            assert_eq!(oauth.policy("r".to_owned()).audience, "r");
        }
        for bad in [
            "id.example",
            "http://id.example",
            "https://u:p@id.example",
            "https://id.example?x",
            "https://id.example#x",
        ] {
            assert!(
                matches!(settings(Some(bad), None, None).check(), Err(ConfigError::OAuthUrl(_))),
                "{bad}"
            );
        }
        let http_keys = settings(Some("https://id.example"), None, Some("http://id.example/keys"));
        assert!(matches!(http_keys.check(), Err(ConfigError::OAuthUrl(_))));
        for half in [settings(None, Some("a"), None), settings(None, None, Some("https://id.example/keys"))] {
            assert!(matches!(half.check(), Err(ConfigError::OAuthIssuerMissing)));
        }
    }
}
