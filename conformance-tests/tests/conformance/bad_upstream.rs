//! An upstream that hangs is the affair of those who call it.

use std::time::{Duration, Instant};

use egress::testing::{FakeServer, Reply};
use mcp_core::mcp::MCP_PROTOCOL_VERSION;
use serde_json::{Value, json};

use crate::product::{Product, REPOS, body, healthy_github};

async fn ask(product: &Product, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    product.mcp(&message, MCP_PROTOCOL_VERSION).await.1
}

/// A live tool, so that no answer comes from the cache.
async fn runs_of(product: &Product, target: &str) -> Value {
    let arguments = json!({"owner": "Octo-Org", "repo": "Hello.World", "target_id": target});
    ask(product, "tools/call", json!({"name": "github__get_recent_ci_runs", "arguments": arguments})).await
}

// proves: C-Q12
#[tokio::test]
async fn one_that_hangs_changes_neither_the_list_nor_the_speed_of_the_others() {
    let [good, bad] = [FakeServer::http().await, FakeServer::http().await];
    for github in [&good, &bad] {
        healthy_github(github, body(REPOS));
    }
    let product = Product::start(&[good.address().port(), bad.address().port()]).await;
    product.add_github("good", &good.url()).await;
    product.add_github("bad", &bad.url()).await;
    let listed = ask(&product, "tools/list", json!({})).await;
    bad.on("/repos/Octo-Org/Hello.World/actions/runs", Reply::silence());

    let hanging = async {
        let calls = (0..8).map(|_| runs_of(&product, "bad"));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            let text = answer["result"]["content"][0]["text"].as_str().expect("text");
            assert!(text.contains("upstream_timeout"), "{text}");
        }
    };
    let others = async {
        // By now all of them wait for the one that hangs.
        while bad.requests().iter().filter(|request| request.path.ends_with("/runs")).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for _ in 0..20 {
            let started = Instant::now();
            assert_eq!(ask(&product, "tools/list", json!({})).await, listed);
            let answer = runs_of(&product, "good").await;
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        }
    };
    tokio::join!(hanging, others);
    product.stop().await;
}
