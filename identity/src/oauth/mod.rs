//! Access tokens of an authorization server (SPEC §7, RFC 9068): whose they are, if they are good and meant for us.
//!
//! A token is read only to be checked. It is never kept, never logged and never sent on.

mod documents;
mod issuer_keys;
mod signatures;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::sync::Arc;

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;

pub use self::documents::{DocumentError, IssuerDocuments};
use self::issuer_keys::IssuerKeys;

/// Seconds by which the issuer's clock and ours may differ.
const LEEWAY_SEC: u64 = 30;

/// Signatures that are taken. None that is made with a shared secret: whoever could check it could forge it.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// What is called a token, beside what is called nothing (RFC 9068 §2.1).
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// Whose tokens are taken, and what they must be meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPolicy {
    /// The issuer, exactly as its tokens name it.
    pub issuer: String,
    /// What must be among the `aud` of a token.
    pub audience: String,
    /// Where the issuer publishes its keys; found out from its metadata when absent.
    pub jwks_url: Option<String>,
}

/// Who a token speaks for: the two together are a person's identity, and nothing else is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Who vouches.
    pub issuer: String,
    /// For whom.
    pub subject: String,
}

/// Why a token says nothing about anybody.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is not one, not of this issuer, not for us, expired, or its signature is bad. The reason is for our log; a
    /// caller gets one answer for all.
    #[error("the token is refused: {0}")]
    Refused(&'static str),
    /// The issuer's keys cannot be had, so nothing can be said about the token.
    #[error("the issuer's signing keys cannot be fetched")]
    KeysUnavailable(#[source] DocumentError),
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

/// Checks the tokens of one issuer.
pub struct TokenVerifier {
    policy: TokenPolicy,
    keys: IssuerKeys,
}

impl TokenVerifier {
    /// A verifier by this policy. Nothing is fetched before the first token comes.
    #[must_use]
    pub fn new(policy: TokenPolicy, documents: Arc<dyn IssuerDocuments>) -> Self {
        signatures::install();
        let keys = IssuerKeys::new(policy.issuer.clone(), policy.jwks_url.clone(), documents);
        Self { policy, keys }
    }

    /// Who the token speaks for.
    ///
    /// # Errors
    /// [`TokenError`].
    ///
    /// # Cancellation
    /// May be dropped at any time; a fetch that was under way is then repeated by the next token.
    pub async fn verify(&self, token: &str) -> Result<Subject, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Refused("it is not a signed JWT"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(TokenError::Refused("its algorithm is not taken"));
        }
        if header.typ.as_deref().is_some_and(|typ| !TYPES.iter().any(|ours| typ.eq_ignore_ascii_case(ours))) {
            return Err(TokenError::Refused("its type is not that of an access token"));
        }
        // Extensions that must be understood (RFC 7515 §4.1.11); none is.
        if header.crit.is_some() {
            return Err(TokenError::Refused("it has critical extensions"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let mut rules = Validation::new(header.alg);
        rules.leeway = LEEWAY_SEC;
        rules.validate_nbf = true;
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        rules.set_issuer(&[&self.policy.issuer]);
        rules.set_audience(&[&self.policy.audience]);
        let token =
            decode::<Claims>(token, &key, &rules).map_err(|error| TokenError::Refused(reason(&error)))?;
        let subject = token.claims.sub;
        if subject.is_empty() || subject.len() > 255 || subject.chars().any(char::is_control) {
            return Err(TokenError::Refused("its subject cannot be one"));
        }
        Ok(Subject { issuer: self.policy.issuer.clone(), subject })
    }
}

fn reason(error: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidSignature => "its signature is bad",
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is meant for another server",
        ErrorKind::MissingRequiredClaim(_) => "it lacks one of exp, iss, aud and sub",
        _ => "it is malformed",
    }
}

#[cfg(test)]
mod tests;
