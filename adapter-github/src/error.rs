//! What an answer of GitHub's that is not a success means to a caller. Its body is never quoted.

use mcp_core::error::AdapterError;

use crate::endpoint::Endpoint;

/// Why a request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The token is live, but a classic or OAuth one: GitHub tells the scopes of those, and of those only.
    #[error("fine-grained PAT required: GitHub says that this token is a classic or OAuth token")]
    TokenKind,
    /// Anything that a call can report.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
}

impl Failure {
    /// What a call reports.
    pub(crate) fn for_call(self) -> AdapterError {
        match self {
            Self::TokenKind => AdapterError::UpstreamAuth,
            Self::Adapter(error) => error,
        }
    }
}

/// What is known about an answer that is neither a success nor a rate limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    /// `X-Accepted-GitHub-Permissions`: what would have been enough.
    pub(crate) accepted_permissions: Option<&'a str>,
    /// `X-GitHub-SSO`: the organisation wants the token authorised for single sign-on.
    pub(crate) sso: bool,
    pub(crate) body: &'a [u8],
}

/// Says what a refusal means.
pub(crate) fn explain(endpoint: &Endpoint, refusal: Refusal<'_>) -> AdapterError {
    match refusal.status {
        401 => AdapterError::UpstreamAuth,
        403 => forbidden(endpoint, refusal),
        404 | 410 => AdapterError::NotFound(endpoint.missing()),
        300..=399 => {
            AdapterError::Upstream("GitHub redirects to another place, and that is not followed".into())
        }
        400 => {
            AdapterError::Upstream(format!("GitHub does not take API version {}", crate::client::API_VERSION))
        }
        422 => AdapterError::Upstream("GitHub does not take these filters; try without them".to_owned()),
        status => AdapterError::Upstream(format!("GitHub failed with status {status}; try again later")),
    }
}

fn forbidden(endpoint: &Endpoint, refusal: Refusal<'_>) -> AdapterError {
    if refusal.sso {
        return AdapterError::InsufficientScope {
            permission: "single sign-on authorisation for the organisation".to_owned(),
        };
    }
    if let Some(permission) = refusal.accepted_permissions.and_then(permission) {
        return AdapterError::InsufficientScope { permission };
    }
    if contains(refusal.body, b"Resource not accessible by personal access token") {
        return AdapterError::InsufficientScope { permission: endpoint.permission().to_owned() };
    }
    AdapterError::Upstream(
        "GitHub forbids this without naming a permission: an organisation's rule on tokens, an IP allow list or a \
         proxy is in the way"
            .to_owned(),
    )
}

/// The header's own words, when they are of its form (`actions=read; contents=read`): a header is the upstream's text,
/// and goes into a message.
fn permission(header: &str) -> Option<String> {
    let header = header.trim();
    let of_its_form = (1..=200).contains(&header.len())
        && header.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_=,; ".contains(&b))
        && header.contains('=');
    of_its_form.then(|| header.to_owned())
}

fn contains(body: &[u8], words: &[u8]) -> bool {
    body.windows(words.len()).take(8 * 1024).any(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{RepoPath, RunFilter};

    fn runs() -> Endpoint {
        let repo = RepoPath::parse("Octo", "Hello").expect("a repository");
        Endpoint::Runs(repo, RunFilter { per_page: 1, status: None, branch: None })
    }

    fn explained(status: u16, accepted_permissions: Option<&str>, body: &[u8]) -> AdapterError {
        explain(&runs(), Refusal { status, accepted_permissions, sso: false, body })
    }

    fn scope(permission: &str) -> AdapterError {
        AdapterError::InsufficientScope { permission: permission.to_owned() }
    }

    // proves: GH-05, C-N14
    #[test]
    fn a_missing_permission_is_named_in_github_s_words_or_in_ours() {
        assert_eq!(explained(403, Some("actions=read"), b""), scope("actions=read"));
        assert_eq!(explained(403, Some("a=read,b=read; c=read"), b""), scope("a=read,b=read; c=read"));
        let body = br#"{"message":"Resource not accessible by personal access token"}"#;
        assert_eq!(explained(403, None, body), scope("actions=read"));
        let sso = Refusal { status: 403, sso: true, ..Refusal::default() };
        assert!(matches!(explain(&runs(), sso), AdapterError::InsufficientScope { .. }));
        // A header of any other form is not repeated.
        for odd in ["", "<script>", "actions", "Actions=read\u{7f}"] {
            assert!(matches!(explained(403, Some(odd), b"canary"), AdapterError::Upstream(_)), "{odd}");
        }
    }

    // proves: AD-05, C-N14, T-16
    #[test]
    fn every_other_refusal_has_its_own_sentence_and_quotes_no_body() {
        assert_eq!(explained(401, None, b"canary"), AdapterError::UpstreamAuth);
        let missing = explained(404, Some("actions=read"), b"canary");
        assert!(missing.to_string().starts_with("Octo/Hello is missing or not granted"), "{missing}");
        for status in [301, 400, 403, 418, 422, 451, 500, 502, 503] {
            let error = explained(status, None, b"canary");
            assert!(matches!(error, AdapterError::Upstream(_)), "{status}");
            assert!(!error.to_string().contains("canary"), "{status}");
        }
    }
}
