//! What an issuer publishes about itself, and the port by which it is fetched.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

/// Fetches a JSON document of the issuer.
#[async_trait]
pub trait IssuerDocuments: Send + Sync {
    /// The body of a 200 answer to a `GET` of this URL, within 10 s and 4 MiB.
    ///
    /// # Errors
    /// [`DocumentError::Fetch`].
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, DocumentError>;
}

/// A document of the issuer cannot be had or used. The texts name no more than the issuer's own URLs.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// There is no answer, or none that is good.
    #[error("{0} cannot be fetched: {1}")]
    Fetch(Url, String),
    /// The answer is not what it should be.
    #[error("{0}")]
    Malformed(&'static str),
    /// It was tried a moment ago.
    #[error("the last attempt failed a moment ago")]
    TriedJustNow,
}

/// The part of RFC 8414 and of OpenID Connect Discovery that is needed.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Where an issuer's metadata can be: RFC 8414 puts the well-known part before the path, OpenID Connect behind it.
pub(super) fn metadata_urls(issuer: &str) -> Vec<Url> {
    let Ok(base) = Url::parse(issuer) else { return Vec::new() };
    let path = base.path().trim_end_matches('/').to_owned();
    ["/.well-known/oauth-authorization-server{path}", "{path}/.well-known/openid-configuration"]
        .iter()
        .map(|form| {
            let mut url = base.clone();
            url.set_path(&form.replace("{path}", &path));
            url
        })
        .collect()
}

/// The URL of the keys, from metadata that speaks of this very issuer.
///
/// # Errors
/// [`DocumentError::Malformed`].
pub(super) fn jwks_url(issuer: &str, metadata: &[u8]) -> Result<Url, DocumentError> {
    let metadata: Metadata = serde_json::from_slice(metadata)
        .map_err(|_| DocumentError::Malformed("the issuer's metadata lacks issuer or jwks_uri"))?;
    if metadata.issuer != issuer {
        return Err(DocumentError::Malformed("the issuer's metadata speaks of another issuer"));
    }
    let url = Url::parse(&metadata.jwks_uri)
        .map_err(|_| DocumentError::Malformed("the issuer's jwks_uri is not a URL"))?;
    // Keys that anybody on the way could exchange vouch for nothing.
    if url.scheme() != "https" && !issuer.starts_with("http://") {
        return Err(DocumentError::Malformed("the issuer's jwks_uri is not https"));
    }
    Ok(url)
}

/// The keys of a JWK set that can be read; a set may hold kinds that we do not know.
///
/// # Errors
/// [`DocumentError::Malformed`] when it is no set, or none of its keys can be read.
pub(super) fn read_keys(jwks: &[u8]) -> Result<Vec<jsonwebtoken::jwk::Jwk>, DocumentError> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(jwks)
        .map_err(|_| DocumentError::Malformed("the issuer's keys are no JWK set"))?;
    let keys: Vec<_> = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
    if keys.is_empty() {
        return Err(DocumentError::Malformed("the issuer publishes no key that can be read"));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_both_standards_put_it() {
        let urls = |issuer| metadata_urls(issuer).iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            urls("https://id.example"),
            [
                "https://id.example/.well-known/oauth-authorization-server",
                "https://id.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            urls("https://id.example/realms/acme"),
            [
                "https://id.example/.well-known/oauth-authorization-server/realms/acme",
                "https://id.example/realms/acme/.well-known/openid-configuration",
            ]
        );
    }

    // proves: X2-03
    #[test]
    fn metadata_of_another_issuer_or_with_keys_in_the_clear_is_not_believed() {
        let told = |issuer: &str, jwks: &str| {
            let metadata = serde_json::json!({"issuer": issuer, "jwks_uri": jwks}).to_string();
            jwks_url("https://id.example", metadata.as_bytes())
        };
        assert!(told("https://id.example", "https://keys.example/jwks").is_ok());
        assert!(told("https://evil.example", "https://keys.example/jwks").is_err());
        assert!(told("https://id.example/", "https://keys.example/jwks").is_err());
        assert!(told("https://id.example", "http://keys.example/jwks").is_err());
        assert!(told("https://id.example", "nonsense").is_err());
        assert!(jwks_url("https://id.example", b"[]").is_err());
    }
}
