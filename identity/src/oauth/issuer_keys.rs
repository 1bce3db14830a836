//! The issuer's signing keys, fetched when they are needed and kept for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use tokio::time::Instant;
use url::Url;

use super::TokenError;
use super::documents::{self, DocumentError, IssuerDocuments};

/// Keys of this age are fetched again.
const FRESH_FOR: Duration = Duration::from_secs(15 * 60);
/// Keys of this age are not used any more, even if the issuer does not answer: it may have withdrawn one.
const USABLE_FOR: Duration = Duration::from_secs(60 * 60);
/// Between two attempts. A stranger who invents key ids does not make us hammer the issuer.
const PAUSE: Duration = Duration::from_secs(30);

/// The keys of one issuer.
pub(super) struct IssuerKeys {
    issuer: String,
    jwks_url: Option<String>,
    documents: Arc<dyn IssuerDocuments>,
    kept: Mutex<Option<Kept>>,
    /// When it was last tried; held during an attempt, so that there is one at a time.
    attempt: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Kept {
    keys: Arc<Vec<Jwk>>,
    at: Instant,
}

impl IssuerKeys {
    pub(super) fn new(issuer: String, jwks_url: Option<String>, documents: Arc<dyn IssuerDocuments>) -> Self {
        Self { issuer, jwks_url, documents, kept: Mutex::default(), attempt: tokio::sync::Mutex::default() }
    }

    /// The key that a token of this header is signed with.
    ///
    /// # Errors
    /// [`TokenError::Refused`] when the issuer has no such key, [`TokenError::KeysUnavailable`] when that cannot be known.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, TokenError> {
        if let Some(key) = self.kept_for(FRESH_FOR).and_then(|keys| choose(&keys, kid, algorithm)) {
            return Ok(key);
        }
        let refreshed = self.refresh().await;
        match self.kept_for(USABLE_FOR) {
            Some(keys) => {
                choose(&keys, kid, algorithm).ok_or(TokenError::Refused("its issuer has no such key"))
            }
            None => {
                let error = refreshed.err().unwrap_or(DocumentError::TriedJustNow);
                Err(TokenError::KeysUnavailable(error))
            }
        }
    }

    /// Fetches the keys, unless that was tried a moment ago.
    async fn refresh(&self) -> Result<(), DocumentError> {
        let mut last = self.attempt.lock().await;
        if last.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(DocumentError::TriedJustNow);
        }
        *last = Some(Instant::now());
        let fetched = self.fetch().await;
        match fetched {
            Ok(keys) => {
                let kept = Kept { keys: Arc::new(keys), at: Instant::now() };
                *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(issuer = %self.issuer, %error, "the issuer's signing keys were not fetched");
                Err(error)
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Jwk>, DocumentError> {
        let url = match &self.jwks_url {
            Some(url) => {
                Url::parse(url).map_err(|_| DocumentError::Malformed("the URL of the keys is none"))?
            }
            None => self.discover().await?,
        };
        documents::read_keys(&self.documents.fetch(&url).await?)
    }

    async fn discover(&self) -> Result<Url, DocumentError> {
        let mut outcome = Err(DocumentError::Malformed("the issuer is not a URL"));
        for url in documents::metadata_urls(&self.issuer) {
            outcome = match self.documents.fetch(&url).await {
                Ok(metadata) => return documents::jwks_url(&self.issuer, &metadata),
                Err(error) => Err(error),
            };
        }
        outcome
    }

    fn kept_for(&self, age: Duration) -> Option<Arc<Vec<Jwk>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|kept| kept.at.elapsed() < age).map(|kept| Arc::clone(&kept.keys))
    }
}

/// The one key that fits. Without a key id there must be no choice.
fn choose(keys: &[Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let mut fitting = keys.iter().filter(|key| {
        kid.is_none_or(|kid| key.common.key_id.as_deref() == Some(kid)) && fits(key, algorithm)
    });
    let (Some(only), None) = (fitting.next(), fitting.next()) else { return None };
    DecodingKey::from_jwk(only).ok()
}

/// Whether the key is for signatures, and for signatures of this very kind.
fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    if matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return false;
    }
    let of_its_kind = match (&key.algorithm, algorithm) {
        (
            AlgorithmParameters::RSA(_),
            Algorithm::RS256
            | Algorithm::RS384
            | Algorithm::RS512
            | Algorithm::PS256
            | Algorithm::PS384
            | Algorithm::PS512,
        ) => true,
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES256) => key.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(key), Algorithm::ES384) => key.curve == EllipticCurve::P384,
        (AlgorithmParameters::OctetKeyPair(key), Algorithm::EdDSA) => key.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    of_its_kind && key.common.key_algorithm.is_none_or(|named| names(named, algorithm))
}

fn names(named: KeyAlgorithm, algorithm: Algorithm) -> bool {
    Algorithm::try_from(named).is_ok_and(|named| named == algorithm)
}
