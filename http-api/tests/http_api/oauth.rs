//! Access tokens at `/mcp`, and how a client learns whose are taken.

use std::sync::Arc;

use identity::Role;
use identity::oauth::testing::{TestDocuments, TestKey, claims};
use identity::oauth::{Subject, TokenPolicy, TokenVerifier};
use identity::pg::{NewIdentity, identity_link, identity_unlink};
use serde_json::json;

use crate::world::{Answer, Client, ISSUER, World};

const RESOURCE: &str = "https://coreci.example/mcp";
const JWKS: &str = "https://id.example/keys";

struct Trusting {
    world: World,
    key: TestKey,
    documents: Arc<TestDocuments>,
}

/// Ada is an operator of the one tenant.
async fn trusting() -> Trusting {
    let key = TestKey::new("one");
    let documents = Arc::new(TestDocuments::default());
    documents.publish(JWKS, json!({"keys": [key.jwk()]}));
    let policy = TokenPolicy {
        issuer: ISSUER.to_owned(),
        audience: RESOURCE.to_owned(),
        jwks_url: Some(JWKS.to_owned()),
    };
    let world = World::trusting(TokenVerifier::new(policy, documents.clone())).await;
    let tx = world.database.tenancy().tx(world.tenant).await.expect("a transaction");
    let subject = ada();
    let new = NewIdentity { name: "ada", role: Role::Operator, subject: &subject };
    identity_link(&tx, &new, None).await.expect("linked");
    tx.commit().await.expect("committed");
    Trusting { world, key, documents }
}

fn ada() -> Subject {
    Subject { issuer: ISSUER.to_owned(), subject: "ada".to_owned() }
}

async fn list(client: &Client) -> Answer {
    client
        .send(
            "POST",
            "/mcp",
            Some(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string()),
            &[],
        )
        .await
}

// proves: X2-03, C-P04
#[tokio::test]
async fn a_token_for_this_server_is_its_users_and_is_good_at_mcp_only() {
    let Trusting { world, key, .. } = trusting().await;
    let client = world.with_key(&key.sign(&claims(ISSUER, RESOURCE, "ada")));
    assert_eq!(list(&client).await.json()["result"]["tools"].as_array().map(Vec::len), Some(9));
    for path in ["/api/me", "/api/mcp/tools", "/api/targets"] {
        assert_eq!(client.get(path).await.told(), "401 unauthenticated", "{path}");
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "github__get_recent_ci_runs", "arguments": {"owner": "o", "repo": "r"}}});
    let answer = client.send("POST", "/mcp", Some(call.to_string()), &[]).await;
    assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.text);

    let tx = world.database.tenancy().tx(world.tenant).await.expect("a transaction");
    identity_unlink(&tx, &ada(), None).await.expect("unlinked");
    tx.commit().await.expect("committed");
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(list(&client).await.told(), "401 unauthenticated");
}

// proves: X2-03, C-P04, C-P05
#[tokio::test]
async fn every_bad_token_gets_the_same_401_and_nobody_is_let_in_without_a_name() {
    let Trusting { world, key, .. } = trusting().await;
    let expected = list(&world.with_key("nonsense")).await;
    assert_eq!(expected.told(), "401 unauthenticated");
    assert!(expected.header("www-authenticate").contains(r#"error="invalid_token""#));
    for token in [
        key.sign(&claims(ISSUER, "https://other.example/mcp", "ada")),
        key.sign(&claims("https://evil.example", RESOURCE, "ada")),
        key.sign(&claims(ISSUER, RESOURCE, "nobody")),
        TestKey::new("one").sign(&claims(ISSUER, RESOURCE, "ada")),
        format!("cck_{}", "A".repeat(43)),
        String::new(),
        "null".to_owned(),
        "undefined".to_owned(),
    ] {
        let answer = list(&world.with_key(&token)).await;
        assert_eq!(answer.without_request_id(), expected.without_request_id(), "{token:?}");
    }
    let good = key.sign(&claims(ISSUER, RESOURCE, "ada"));
    for header in
        [good.clone(), format!("Basic {good}"), format!("Bearer {good} x"), format!("Bearer  {good}")]
    {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        let answer = world.anonymous().send("POST", "/mcp", Some(list), &[("authorization", &header)]).await;
        assert_eq!(answer.told(), "401 unauthenticated", "{header}");
    }
}

// proves: X2-03
#[tokio::test]
async fn a_client_without_a_token_learns_where_to_get_one_when_there_is_an_issuer() {
    let Trusting { world, .. } = trusting().await;
    let answer = list(&world.anonymous()).await;
    assert_eq!(answer.told(), "401 unauthenticated");
    let metadata = "https://coreci.example/.well-known/oauth-protected-resource/mcp";
    let challenge = format!(r#"Bearer realm="coreci", resource_metadata="{metadata}""#);
    assert_eq!(answer.header("www-authenticate"), challenge);
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let document = world.anonymous().get(path).await;
        assert_eq!(document.told(), "200");
        assert_eq!(document.json()["resource"], RESOURCE);
        assert_eq!(document.json()["authorization_servers"], json!([ISSUER]));
    }

    let plain = World::new().await;
    let answer = list(&plain.anonymous()).await;
    assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="coreci""#);
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        assert_eq!(plain.anonymous().get(path).await.told(), "404 not_found");
    }
    assert_eq!(plain.anonymous().get("/api/me").await.header("www-authenticate"), r#"Bearer realm="coreci""#);
}

// proves: X2-03
#[tokio::test]
async fn an_issuer_that_is_away_is_said_and_keys_of_ours_still_work() {
    let Trusting { world, key, documents } = trusting().await;
    documents.withdraw(JWKS);
    let token = key.sign(&claims(ISSUER, RESOURCE, "ada"));
    assert_eq!(list(&world.with_key(&token)).await.told(), "502 upstream_error");
    assert_eq!(list(&world.client(Role::Operator).await).await.told(), "200");
}
