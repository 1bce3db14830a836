//! What goes out.

use std::sync::Arc;

use egress::testing::{FakeServer, Reply, StaticResolver, loopback_policy};
use egress::{EgressError, Get, TlsTrust};
use serde_json::json;

use crate::support::{client, client_of};

#[tokio::test]
async fn paths_and_queries_are_encoded() {
    let server = FakeServer::https().await;
    server.fallback(Reply::json(200, json!({})));
    let base = format!("{}/api/v3/", server.url());
    let client = client(
        &base,
        TlsTrust::CaPem(server.ca_pem()),
        loopback_policy(),
        Arc::new(StaticResolver::loopback()),
    );

    let odd = Get::path(["a/b", "..%2f", "ü ?#", "x.y-z_~"]).query("q", "a&b=c").query("page", 2);
    client.get(odd).await.unwrap();
    client.get(Get::path([""; 0])).await.unwrap();

    let seen = server.requests();
    assert_eq!(seen[0].path, "/api/v3/a%2Fb/..%252f/%C3%BC%20%3F%23/x.y-z_~");
    assert_eq!(seen[0].query, "q=a%26b%3Dc&page=2");
    assert_eq!(seen[1].path, "/api/v3");
    for bad in ["", ".", ".."] {
        let error = client.get(Get::path(["repos", bad])).await.unwrap_err();
        assert!(matches!(error, EgressError::Request(_)), "{bad:?}: {error:?}");
    }
    assert_eq!(server.requests().len(), 2);
}

// proves: C-H18
#[tokio::test]
async fn requests_are_plain_reads() {
    let server = FakeServer::https().await;
    server.fallback(Reply::json(200, json!({})).header("set-cookie", "a=b"));
    let client = client_of(&server);
    for _ in 0..2 {
        client
            .get(Get::path(["x"]).header("accept", "application/json").secret_header("authorization", "t"))
            .await
            .unwrap();
    }
    for seen in server.requests() {
        assert_eq!(seen.method, "GET");
        let mut names: Vec<_> = seen.headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept", "authorization", "host", "user-agent"],
            "no cookie, no encoding, no body"
        );
        assert_eq!(seen.headers["user-agent"], concat!("coreci/", env!("CARGO_PKG_VERSION")));
        assert_eq!(seen.headers["host"], server.address().to_string());
    }
    for name in ["host", "cookie", "accept-encoding", "transfer-encoding", "Not A Header"] {
        assert!(
            matches!(client.get(Get::path(["x"]).header(name, "v")).await, Err(EgressError::Request(_))),
            "{name}"
        );
    }
    let split = client.get(Get::path(["x"]).secret_header("authorization", "a\r\nx: y")).await;
    assert!(matches!(split, Err(EgressError::Request(_))), "no header is smuggled in a credential");
}

/// The test above, once more in a process whose environment names a proxy.
// proves: C-H18
#[test]
fn the_environments_proxy_is_not_used() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &url);
    }
    let ran = child.args(["--exact", "request::requests_are_plain_reads"]).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
    assert!(ran.status.success());
    assert_eq!(proxy.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

// proves: C-H15, C-H16
#[tokio::test]
async fn redirects_are_followed_by_hand_and_at_home() {
    let (server, other) = (FakeServer::https().await, FakeServer::https().await);
    server.on("/old", Reply::raw(301, "", &[("location", "/new?id=1")], ""));
    server.on("/new?id=1", Reply::json(200, json!({})));
    server.on("/away", Reply::raw(302, "", &[("location", &other.url())], ""));
    let client = client_of(&server);
    let get = |path| Get::path([path]).secret_header("authorization", "t");

    let response = client.get(get("old").query("page", 1)).await.unwrap();
    assert_eq!(response.status, 301, "not followed by itself");
    let location = response.headers["location"].to_str().unwrap().to_owned();
    let next = get("old").query("page", 1).follow_same_origin(&location, &client).unwrap();
    assert_eq!(client.get(next).await.unwrap().status, 200);
    assert_eq!(server.requests()[1].headers["authorization"], "t");

    let away = client.get(get("away")).await.unwrap().headers["location"].to_str().unwrap().to_owned();
    assert!(get("away").follow_same_origin(&away, &client).is_err());
    assert_eq!(other.accepted(), 0);
}

// proves: C-J03, C-H22
#[tokio::test]
async fn no_text_of_ours_or_theirs_is_in_an_error() {
    let server = FakeServer::https().await;
    server.on(
        "/leak",
        Reply::raw(200, "banner-b4nner", &[("x", "banner-b4nner")], "banner-b4nner").cut_after(3),
    );
    let client = client_of(&server);
    let get = |path| Get::path([path, "p4th"]).query("q", "qu3ry").secret_header("authorization", "s3cret");
    let shown = format!("{:?}", get("leak"));
    let mut texts = vec![shown];
    server.on(
        "/leak/p4th?q=qu3ry",
        Reply::raw(200, "banner-b4nner", &[("x", "b4nner")], "b4nner").cut_after(3),
    );
    let broken = client.get(get("leak")).await.unwrap_err();
    texts.push(format!("{broken} {broken:?}"));
    let refused = client.get(get("..")).await.unwrap_err();
    texts.push(format!("{refused} {refused:?}"));
    server.on("/fine/p4th", Reply::raw(200, "b4nner", &[("x", "b4nner")], "b4nner"));
    texts.push(format!("{:?}", client.get(get("fine")).await.unwrap()));
    for text in texts {
        for hidden in ["p4th", "qu3ry", "s3cret", "b4nner", "127.0.0.1"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}
