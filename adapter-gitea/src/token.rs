//! An access token of Gitea or Forgejo.

use std::fmt;

use mcp_core::secret::SecretValue;

/// An access token. It prints as `[REDACTED]`.
#[derive(Clone)]
pub struct GiteaToken(SecretValue);

/// The text is not of a token's form: empty, over 2,048 characters, or with white space or control characters inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an access token is one word of at most 2,048 printable ASCII characters")]
pub struct TokenError;

impl GiteaToken {
    /// Takes a token; white space around it and a pasted `token ` before it are dropped. Forgejo and OAuth2 tokens have
    /// other forms than Gitea's 40 hexadecimal digits, so the form is not held to those.
    ///
    /// # Errors
    /// [`TokenError`] when no server could have issued it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_ascii();
        let text = text.strip_prefix("token ").unwrap_or(text).trim_ascii();
        let fits = (1..=2048).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(SecretValue::new(text.to_owned()))) } else { Err(TokenError) }
    }

    /// The value of the `Authorization` header.
    #[expect(clippy::disallowed_methods, reason = "the token enters a request here")]
    pub(crate) fn authorization(&self) -> SecretValue {
        SecretValue::new(format!("token {}", self.0.reveal()))
    }

    /// The token, to look for it in what an upstream sends back.
    pub(crate) fn secret(&self) -> &SecretValue {
        &self.0
    }
}

impl fmt::Debug for GiteaToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: GT-01, REQ-027
    #[test]
    fn a_pasted_token_is_taken_and_sent_in_gitea_s_form() {
        for text in ["0a1b2c", " token 0a1b2c\n", "0a1b2c\r\n"] {
            let sent = GiteaToken::parse(text).expect("a token").authorization();
            assert_eq!(sent, SecretValue::new("token 0a1b2c".to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_no_token() {
        for text in ["", " ", "a b", "a\r\nX-Evil: 1", "\u{e4}", &"a".repeat(2049)] {
            assert_eq!(GiteaToken::parse(text).expect_err("refused"), TokenError, "{text:.20}");
        }
        assert_eq!(format!("{:?}", GiteaToken::parse("canary").expect("a token")), "[REDACTED]");
    }
}
