//! Documents of the issuer of access tokens, fetched through the egress guard.

use std::sync::Arc;

use async_trait::async_trait;
use egress::{EgressPolicy, EgressUrl, Get, Resolver, TlsTrust, UpstreamClient};
use identity::oauth::{DocumentError, IssuerDocuments};
use url::Url;

use crate::config::OAuth;

/// Fetches what the issuer publishes. The operator named it, so that the ports and, for trying things out, the loopback
/// address in its URL are open to it; what else the policy refuses, it refuses here, too.
pub(crate) struct GuardedDocuments {
    policy: Arc<EgressPolicy>,
    resolver: Arc<dyn Resolver>,
}

impl GuardedDocuments {
    pub(crate) fn new(oauth: &OAuth, policy: &EgressPolicy, resolver: Arc<dyn Resolver>) -> Self {
        let mut policy = policy.clone();
        for url in std::iter::once(&oauth.issuer).chain(&oauth.jwks_url) {
            let Ok(url) = Url::parse(url) else { continue };
            policy.ports.extend(url.port_or_known_default());
            // The settings take plain http for a loopback address only.
            if url.scheme() == "http" {
                policy.allow_http = true;
                policy.allow_loopback = true;
            }
        }
        Self { policy: Arc::new(policy), resolver }
    }
}

#[async_trait]
impl IssuerDocuments for GuardedDocuments {
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, DocumentError> {
        let failed = |reason: String| DocumentError::Fetch(url.clone(), reason);
        let base = EgressUrl::parse(url.as_str(), &self.policy).map_err(|refusal| {
            let hint = refusal.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            failed(format!("{refusal}{hint}"))
        })?;
        let client =
            UpstreamClient::new(base, TlsTrust::System, Arc::clone(&self.policy), Arc::clone(&self.resolver))
                .map_err(|error| failed(error.to_string()))?;
        let get = Get::path([""; 0]).header("accept", "application/json");
        let response = client.get(get).await.map_err(|error| failed(error.to_string()))?;
        match response.status {
            200 if response.body_complete => Ok(response.body.to_vec()),
            200 => Err(failed("the answer broke off".to_owned())),
            status => Err(failed(format!("it answers {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use egress::SystemResolver;
    use egress::testing::{FakeServer, Reply};
    use serde_json::json;

    use super::*;

    fn documents(issuer: &str) -> GuardedDocuments {
        let oauth = OAuth { issuer: issuer.to_owned(), audience: None, jwks_url: None };
        GuardedDocuments::new(&oauth, &EgressPolicy::default(), Arc::new(SystemResolver))
    }

    async fn told(documents: &GuardedDocuments, url: &str) -> String {
        let url = Url::parse(url).expect("a URL");
        documents.fetch(&url).await.expect_err("refused").to_string()
    }

    // proves: X2-03
    #[tokio::test]
    async fn an_issuer_is_asked_where_the_operator_put_it_and_nowhere_else() {
        let server = FakeServer::http().await;
        server.fallback(Reply::json(200, json!({"keys": []})));
        let documents = documents(&server.url());
        let url = Url::parse(&server.url()).expect("a URL").join("/keys").expect("a URL");
        assert_eq!(documents.fetch(&url).await.expect("fetched"), br#"{"keys":[]}"#);

        // What a document of the issuer points to is still only what the policy lets be dialled.
        let metadata_service = told(&documents, "https://169.254.169.254/keys").await;
        assert!(metadata_service.contains("169.254.169.254"), "{metadata_service}");
        let private = told(&documents, "https://10.0.0.7/keys").await;
        assert!(private.contains("10.0.0.7") && private.contains("allow_cidrs"), "{private}");
    }

    #[tokio::test]
    async fn an_answer_that_is_not_200_is_no_document() {
        let server = FakeServer::http().await;
        server.fallback(Reply::json(302, json!({})));
        let said = told(&documents(&server.url()), &server.url()).await;
        assert!(said.contains("302"), "{said}");
    }
}
