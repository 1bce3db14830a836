//! An issuer of access tokens for tests.
#![expect(clippy::expect_used, reason = "a test stops where its issuer breaks")]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use time::OffsetDateTime;
use url::Url;

use super::{DocumentError, IssuerDocuments};

/// Publishes what it is told to, and counts who asks.
#[derive(Default)]
pub struct TestDocuments {
    published: Mutex<HashMap<String, Value>>,
    asked: AtomicUsize,
}

impl TestDocuments {
    /// Publishes a document.
    pub fn publish(&self, url: &str, document: Value) {
        self.published.lock().expect("lock").insert(url.to_owned(), document);
    }

    /// Takes a document away.
    pub fn withdraw(&self, url: &str) -> Option<Value> {
        self.published.lock().expect("lock").remove(url)
    }

    /// How often any document was asked for.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl IssuerDocuments for TestDocuments {
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, DocumentError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let published = self.published.lock().expect("lock");
        let document = published.get(url.as_str());
        let document = document.ok_or_else(|| DocumentError::Fetch(url.clone(), "404".to_owned()))?;
        Ok(document.to_string().into_bytes())
    }
}

/// A signing key of an issuer.
pub struct TestKey {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl TestKey {
    /// Makes a key of this id.
    #[must_use]
    pub fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let bytes = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self { id, pair: EcdsaKeyPair::from_pkcs8(algorithm, bytes.as_ref(), &random).expect("a key") }
    }

    /// The uncompressed public point.
    #[must_use]
    pub fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The public key as an issuer publishes it.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let point = self.point();
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
        })
    }

    /// A token of these claims.
    #[must_use]
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": "ES256", "typ": "at+jwt", "kid": self.id}), claims)
    }

    /// A token of these claims under any header, which may lie.
    #[must_use]
    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).expect("signed");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Header and claims of a token without its signature.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// The claims of a good token for five minutes.
#[must_use]
pub fn claims(issuer: &str, audience: &str, subject: &str) -> Value {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    json!({"iss": issuer, "aud": audience, "sub": subject, "exp": now + 300, "nbf": now - 5})
}
