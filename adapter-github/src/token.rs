//! Which tokens are taken: fine-grained personal access tokens and no other kind.
//!
//! Every other kind of GitHub token is broader than reading needs: a classic one with `repo` may push to every
//! repository of its owner, and no request can tell how far it reaches.

use std::fmt;

use mcp_core::secret::SecretValue;

/// A fine-grained personal access token. It prints as `[REDACTED]`.
#[derive(Clone)]
pub struct GithubToken(SecretValue);

/// Why a text is not taken as a token. No variant quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A token of another kind, which is named.
    #[error("fine-grained PAT required: this is {0}")]
    OtherKind(&'static str),
    /// Not a token of GitHub's at all.
    #[error("fine-grained PAT required: it starts with github_pat_")]
    NotAToken,
    /// It starts like one, but was cut or carries other characters.
    #[error("fine-grained PAT required: the token is incomplete or has other characters in it")]
    Damaged,
}

const PREFIX: &str = "github_pat_";

const OTHER_KINDS: &[(&str, &str)] = &[
    ("ghp_", "a classic personal access token (ghp_)"),
    ("gho_", "an OAuth token (gho_)"),
    ("ghu_", "a user token of a GitHub App (ghu_)"),
    ("ghs_", "an installation token of a GitHub App (ghs_)"),
    ("ghr_", "a refresh token (ghr_)"),
];

impl GithubToken {
    /// Takes a fine-grained personal access token; white space around it is dropped.
    ///
    /// # Errors
    /// [`TokenError`] for anything else, naming the kind where it can be told.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_ascii();
        if let Some(rest) = text.strip_prefix(PREFIX) {
            let whole = (16..=244).contains(&rest.len())
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            return if whole {
                Ok(Self(SecretValue::new(text.to_owned())))
            } else {
                Err(TokenError::Damaged)
            };
        }
        if let Some((_, kind)) = OTHER_KINDS.iter().find(|(prefix, _)| text.starts_with(prefix)) {
            return Err(TokenError::OtherKind(kind));
        }
        if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(TokenError::OtherKind("a classic token of the old form (40 hexadecimal digits)"));
        }
        Err(TokenError::NotAToken)
    }

    /// The value of the `Authorization` header.
    #[expect(clippy::disallowed_methods, reason = "the token enters a request here")]
    pub(crate) fn authorization(&self) -> SecretValue {
        SecretValue::new(format!("Bearer {}", self.0.reveal()))
    }

    /// The token, to look for it in what an upstream sends back.
    pub(crate) fn secret(&self) -> &SecretValue {
        &self.0
    }
}

impl fmt::Debug for GithubToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        GithubToken::parse(text).expect_err("refused").to_string()
    }

    // proves: D-006, GH-02, REQ-027
    #[test]
    fn only_fine_grained_tokens_are_taken_and_other_kinds_are_named() {
        assert!(GithubToken::parse("github_pat_11ABCDEFG0abcdefghijkl_XYZ\n").is_ok());
        for (kind, named) in [("ghp", "classic"), ("gho", "OAuth"), ("ghu", "user"), ("ghs", "installation")]
        {
            let message = refused(&format!("{kind}_0123456789abcdefghij0123456789abcdef"));
            assert!(message.starts_with("fine-grained PAT required"), "{message}");
            assert!(message.contains(named), "{message}");
        }
        assert!(refused("ghr_0123456789abcdef").contains("refresh"));
        assert!(refused(&"0a".repeat(20)).contains("40 hexadecimal"));
        for text in
            ["", "token", "Bearer github_pat_11ABCDEFG0abcdefghijkl", "GITHUB_PAT_11ABCDEFG0abcdefghijk"]
        {
            assert_eq!(GithubToken::parse(text).expect_err("refused"), TokenError::NotAToken, "{text}");
        }
        for text in
            ["github_pat_", "github_pat_11ABCDEFG0abc\r\nX-Evil: 1", "github_pat_11ABCDEFG0 bcdefghij"]
        {
            assert_eq!(GithubToken::parse(text).expect_err("refused"), TokenError::Damaged, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_refusal_and_no_formatting_quotes_the_text(tail in "[A-Za-z0-9]{24,60}") {
            for prefix in ["ghp_", "github_pat_!", "", "github_pat_"] {
                let shown = match GithubToken::parse(&format!("{prefix}{tail}")) {
                    Ok(token) => format!("{token:?}"),
                    Err(error) => format!("{error} {error:?}"),
                };
                prop_assert!(!shown.contains(&tail));
            }
        }
    }
}
