use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::testing::{TestDocuments, TestKey, unsigned};
use super::*;

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://coreci.example/mcp";
const JWKS: &str = "https://id.example/keys";

fn claims(changes: Value) -> Value {
    let mut claims = testing::claims(ISSUER, AUDIENCE, "ada");
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => claims.as_object_mut().expect("an object").remove(name),
            value => claims.as_object_mut().expect("an object").insert(name.clone(), value.clone()),
        };
    }
    claims
}

struct Issuer {
    key: TestKey,
    documents: Arc<TestDocuments>,
    verifier: TokenVerifier,
}

fn issuer() -> Issuer {
    let key = TestKey::new("one");
    let documents = Arc::new(TestDocuments::default());
    let metadata = json!({"issuer": ISSUER, "jwks_uri": JWKS});
    documents.publish("https://id.example/.well-known/openid-configuration", metadata);
    documents.publish(JWKS, json!({"keys": [key.jwk(), {"kty": "future", "kid": "two"}]}));
    let policy = TokenPolicy { issuer: ISSUER.to_owned(), audience: AUDIENCE.to_owned(), jwks_url: None };
    let verifier = TokenVerifier::new(policy, documents.clone());
    Issuer { key, documents, verifier }
}

fn is_refused(outcome: &Result<Subject, TokenError>) -> bool {
    matches!(outcome, Err(TokenError::Refused(_)))
}

// proves: X2-03
#[tokio::test]
async fn a_good_token_names_its_subject_and_the_keys_are_fetched_once() {
    let Issuer { key, documents, verifier } = issuer();
    for audience in [json!(AUDIENCE), json!(["https://other.example", AUDIENCE])] {
        let subject = verifier.verify(&key.sign(&claims(json!({"aud": audience})))).await.expect("good");
        assert_eq!(subject, Subject { issuer: ISSUER.to_owned(), subject: "ada".to_owned() });
    }
    // The first place of the metadata, the second, and the keys.
    assert_eq!(documents.asked(), 3);
}

// proves: X2-03, C-P04
#[tokio::test]
async fn a_token_of_another_issuer_for_another_server_or_out_of_time_is_refused() {
    let Issuer { key, verifier, .. } = issuer();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for wrong in [
        json!({"iss": "https://id.example/"}),
        json!({"iss": "https://evil.example"}),
        json!({"iss": null}),
        json!({"aud": "https://coreci.example"}),
        json!({"aud": "https://coreci.example/mcp/"}),
        json!({"aud": ["https://other.example"]}),
        json!({"aud": []}),
        json!({"aud": null}),
        json!({"exp": now - 60}),
        json!({"exp": null}),
        json!({"exp": "tomorrow"}),
        json!({"nbf": now + 60}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": "a\u{0}"}),
        json!({"sub": "x".repeat(256)}),
        json!({"sub": ["ada"]}),
    ] {
        let outcome = verifier.verify(&key.sign(&claims(wrong.clone()))).await;
        assert!(is_refused(&outcome), "{wrong}: {outcome:?}");
    }
}

// proves: X2-03, C-P05
#[tokio::test]
async fn a_token_whose_signature_is_none_is_refused() {
    let Issuer { key, verifier, .. } = issuer();
    let good = claims(json!({}));
    let stranger = TestKey::new("one");
    let (head, signature) = {
        let token = key.sign(&good);
        let (head, signature) = token.rsplit_once('.').expect("a signature");
        (head.to_owned(), signature.to_owned())
    };
    let other_claims = unsigned(&json!({"alg": "ES256", "kid": "one"}), &claims(json!({"sub": "root"})));
    // The public key as the secret of a symmetric algorithm: the classic confusion.
    let point = key.point();
    let confused = unsigned(&json!({"alg": "HS256", "kid": "one"}), &good);
    let mac = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, point), confused.as_bytes());
    for token in [
        stranger.sign(&good),
        format!("{head}."),
        format!("{head}.{}", "A".repeat(signature.len())),
        format!("{other_claims}.{signature}"),
        format!("{}.", unsigned(&json!({"alg": "none"}), &good)),
        format!("{}.{signature}", unsigned(&json!({"alg": "none", "kid": "one"}), &good)),
        format!("{confused}.{}", URL_SAFE_NO_PAD.encode(mac)),
        key.sign_as(&json!({"alg": "ES384", "kid": "one"}), &good),
        key.sign_as(&json!({"alg": "RS256", "kid": "one"}), &good),
        key.sign_as(&json!({"alg": "ES256", "kid": "nobody's"}), &good),
        key.sign_as(&json!({"alg": "ES256", "kid": "one", "typ": "dpop+jwt"}), &good),
        key.sign_as(&json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false}), &good),
        // A key that the token brings itself vouches for nothing.
        stranger.sign_as(&json!({"alg": "ES256", "kid": "new", "jwk": stranger.jwk()}), &good),
        "a.b.c".to_owned(),
        "..".to_owned(),
        String::new(),
        "a.b.c.d.e".to_owned(),
    ] {
        let outcome = verifier.verify(&token).await;
        assert!(is_refused(&outcome), "{token}: {outcome:?}");
    }
}

#[tokio::test]
async fn edwards_signatures_are_taken_and_without_a_key_id_there_must_be_no_choice() {
    let Issuer { key, documents, verifier } = issuer();
    let bytes = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    let pair = Ed25519KeyPair::from_pkcs8(bytes.as_ref()).expect("a key");
    let jwk =
        json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key().as_ref())});
    documents.publish(JWKS, json!({"keys": [jwk, key.jwk(), TestKey::new("three").jwk()]}));
    let message = unsigned(&json!({"alg": "EdDSA"}), &claims(json!({})));
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes())));
    assert!(verifier.verify(&token).await.is_ok());
    assert!(is_refused(&verifier.verify(&key.sign_as(&json!({"alg": "ES256"}), &claims(json!({})))).await));
}

// The example of RFC 7515, appendix A.2, checked the way a token's signature is.
#[test]
fn rsa_signatures_are_checked_as_the_standards_example() {
    let key = json!({
        "kty": "RSA", "e": "AQAB",
        "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
    });
    let key: jsonwebtoken::jwk::Jwk = serde_json::from_value(key).expect("a key");
    let key = jsonwebtoken::DecodingKey::from_jwk(&key).expect("a key");
    let message = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    signatures::install();
    let verify = |message: &str, algorithm| {
        jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key, algorithm)
    };
    assert!(verify(message, Algorithm::RS256).expect("checked"));
    assert!(!verify(&message.replace("joe", "eve").to_uppercase(), Algorithm::RS256).expect("checked"));
    assert!(!verify(message, Algorithm::PS256).expect("checked"));
    assert!(!verify(message, Algorithm::ES256).expect("checked"));
    assert!(verify(message, Algorithm::HS256).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_found_within_the_pause_and_a_withdrawn_one_is_forgotten_in_time() {
    let Issuer { key, documents, verifier } = issuer();
    assert!(verifier.verify(&key.sign(&claims(json!({})))).await.is_ok());
    let next = TestKey::new("next");
    documents.publish(JWKS, json!({"keys": [next.jwk()]}));
    let asked = documents.asked();
    for _ in 0..20 {
        assert!(is_refused(&verifier.verify(&next.sign(&claims(json!({})))).await));
    }
    assert_eq!(documents.asked(), asked, "strangers' key ids cost the issuer nothing");

    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(verifier.verify(&next.sign(&claims(json!({})))).await.is_ok());
    assert!(is_refused(&verifier.verify(&key.sign(&claims(json!({})))).await));
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_is_away_is_no_verdict_and_known_keys_carry_over_for_an_hour() {
    let Issuer { key, documents, verifier } = issuer();
    let token = || key.sign(&claims(json!({"exp": 4_000_000_000_u64})));
    let keys = documents.withdraw(JWKS).expect("keys");
    assert!(matches!(verifier.verify(&token()).await, Err(TokenError::KeysUnavailable(_))));
    documents.publish(JWKS, keys);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(verifier.verify(&token()).await.is_ok());

    documents.withdraw(JWKS);
    tokio::time::advance(Duration::from_secs(50 * 60)).await;
    assert!(verifier.verify(&token()).await.is_ok());
    tokio::time::advance(Duration::from_secs(15 * 60)).await;
    assert!(matches!(verifier.verify(&token()).await, Err(TokenError::KeysUnavailable(_))));
}
