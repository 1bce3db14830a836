//! From a presented credential to a principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_core::id::KeyId;
use mcp_core::principal::Principal;
use tenancy::{Tenancy, TenancyError};

use crate::key::ApiKey;
use crate::oauth::{TokenError, TokenVerifier};
use crate::pg;

/// How long a credential that was good is taken to be good without asking again. Revoking through this process clears it at
/// once; a revocation by another process is seen after this time at the latest.
const REMEMBER_FOR: Duration = Duration::from_secs(1);
/// Most credentials remembered at once.
const REMEMBER_AT_MOST: usize = 10_000;

/// Why there is no principal.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No such key, expired, revoked, or its tenant is suspended: one answer for all of them.
    #[error("the credential is not good")]
    Unauthenticated,
    /// The database cannot be asked.
    #[error("the database cannot be asked about a credential")]
    Unavailable(#[source] TenancyError),
    /// The issuer of access tokens cannot be asked for its keys.
    #[error("the issuer of access tokens cannot be asked for its keys")]
    IssuerUnavailable(#[source] TokenError),
}

/// Answers who a credential belongs to. Roles are read with every look-up, never taken from the client.
pub struct Authenticator {
    tenancy: Tenancy,
    tokens: Option<TokenVerifier>,
    known: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    principal: Arc<Principal>,
    until: Instant,
}

impl Authenticator {
    /// An authenticator over this database.
    #[must_use]
    pub fn new(tenancy: Tenancy) -> Self {
        Self { tenancy, tokens: None, known: Mutex::default() }
    }

    /// Takes access tokens as well, where a door allows them.
    #[must_use]
    pub fn with_tokens(self, tokens: TokenVerifier) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// The principal behind a presented key. A malformed key costs no look-up.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn authenticate(&self, presented: &str) -> Result<Arc<Principal>, AuthError> {
        let digest = ApiKey::parse(presented).map_err(|_| AuthError::Unauthenticated)?.digest();
        if let Some(principal) = self.recall(&digest) {
            return Ok(principal);
        }
        let found = pg::key_authenticate(&self.tenancy, &digest).await.map_err(AuthError::Unavailable)?;
        let principal = Arc::new(found.ok_or(AuthError::Unauthenticated)?);
        self.remember(digest, Arc::clone(&principal));
        Ok(principal)
    }

    /// The principal behind a presented key or access token. What has the form of a key is one and nothing else.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn authenticate_key_or_token(&self, presented: &str) -> Result<Arc<Principal>, AuthError> {
        let tokens = match &self.tokens {
            Some(tokens) if ApiKey::parse(presented).is_err() => tokens,
            _ => return self.authenticate(presented).await,
        };
        let digest = sha256(presented);
        if let Some(principal) = self.recall(&digest) {
            return Ok(principal);
        }
        let subject = tokens.verify(presented).await.map_err(|error| match error {
            TokenError::Refused(reason) => {
                tracing::debug!(reason, "an access token was refused");
                AuthError::Unauthenticated
            }
            TokenError::KeysUnavailable(_) => AuthError::IssuerUnavailable(error),
        })?;
        let found =
            pg::subject_authenticate(&self.tenancy, &subject).await.map_err(AuthError::Unavailable)?;
        let principal = Arc::new(found.ok_or(AuthError::Unauthenticated)?);
        self.remember(digest, Arc::clone(&principal));
        Ok(principal)
    }

    /// Forgets a key that was just revoked.
    pub fn forget(&self, key: KeyId) {
        self.lock().retain(|_, known| known.principal.key != Some(key));
    }

    fn recall(&self, digest: &[u8; 32]) -> Option<Arc<Principal>> {
        let known = self.lock();
        let entry = known.get(digest)?;
        (Instant::now() < entry.until).then(|| Arc::clone(&entry.principal))
    }

    fn remember(&self, digest: [u8; 32], principal: Arc<Principal>) {
        let now = Instant::now();
        let mut known = self.lock();
        if known.len() >= REMEMBER_AT_MOST {
            known.retain(|_, entry| now < entry.until);
        }
        if known.len() < REMEMBER_AT_MOST {
            known.insert(digest, Known { principal, until: now + REMEMBER_FOR });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sha256(text: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    out
}
