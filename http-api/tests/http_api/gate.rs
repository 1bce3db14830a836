//! Who gets in.

use http_api::{Access, route_table};
use identity::Role;
use mcp_core::principal::Action;
use serde_json::json;

use crate::world::{TOOL, World};

fn concrete(path: &str) -> String {
    path.replace("{call}", "01JE0000000000000000000000")
        .replace("{target}", "00000000-0000-0000-0000-000000000001")
        .replace("{adapter}", "00000000-0000-0000-0000-000000000001")
        .replace("{key}", "00000000-0000-0000-0000-000000000001")
}

// proves: C-A01, REQ-005, S-02
#[tokio::test]
async fn without_a_key_every_route_but_the_public_ones_is_401() {
    let world = World::new().await;
    for route in route_table() {
        let answer =
            world.anonymous().send(route.method, &concrete(route.path), Some("{}".into()), &[]).await;
        match route.access {
            Access::Needs(_) => {
                assert_eq!(answer.told(), "401 unauthenticated", "{} {}", route.method, route.path);
                assert!(answer.header("www-authenticate").starts_with("Bearer"));
            }
            Access::Public(_) => assert!(answer.status.as_u16() < 500, "{} {}", route.method, route.path),
        }
    }
}

// proves: C-D01, REQ-004, AU-05
#[tokio::test]
async fn every_role_gets_exactly_what_the_table_says() {
    let world = World::new().await;
    for role in Role::ALL {
        let client = world.client(*role).await;
        for route in route_table() {
            let Access::Needs(action) = route.access else { continue };
            // Revoking the key under test would end the test.
            let answer = client.send(route.method, &concrete(route.path), Some("{}".into()), &[]).await;
            let is_forbidden = answer.told() == "403 forbidden";
            assert_eq!(
                is_forbidden,
                !role.allows(action),
                "{role} {} {}: {}",
                route.method,
                route.path,
                answer.told()
            );
        }
    }
}

// proves: C-D02
#[tokio::test]
async fn a_viewer_invokes_nothing_and_the_denial_is_written_once() {
    let world = World::new().await;
    let (viewer, admin) = (world.client(Role::Viewer).await, world.client(Role::Admin).await);
    for _ in 0..3 {
        assert_eq!(viewer.invoke(TOOL, json!({})).await.told(), "403 forbidden");
    }
    assert_eq!(world.reached(), 0);
    let events = admin.get("/api/audit?type=rbac.denied").await.json();
    assert_eq!(events["events"].as_array().expect("events").len(), 1);
    assert_eq!(events["events"][0]["body"]["action"], Action::ToolsInvoke.as_str());
}

// proves: C-P05, C-A02
#[tokio::test]
async fn every_bad_credential_gets_one_answer() {
    let world = World::new().await;
    let good = world.client(Role::Admin).await;
    let expected = world.anonymous().get("/api/me").await.without_request_id();
    for header in
        ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer cck_", "Bearer nonsense", "cck_x", "Bearer a b"]
    {
        let answer = world.anonymous().send("GET", "/api/me", None, &[("authorization", header)]).await;
        assert_eq!(answer.without_request_id(), expected, "{header:?}");
    }
    let unknown = format!("cck_{}", "A".repeat(43));
    assert_eq!(world.with_key(&unknown).get("/api/me").await.without_request_id(), expected);
    let twice = good.send("GET", "/api/me", None, &[("authorization", "Bearer x")]).await;
    assert_eq!(twice.without_request_id(), expected, "two credentials are none");
    assert_eq!(good.get("/api/me").await.told(), "200");
}

// proves: C-A18, C-P07
#[tokio::test]
async fn a_foreign_host_is_turned_away_before_anything_else() {
    let world = World::new().await;
    for host in ["evil.example", "coreci.example.evil.example", "127.0.0.1"] {
        let answer = world.anonymous().send("GET", "/api/me", None, &[("host", host)]).await;
        assert_eq!(answer.told(), "421 host_refused", "{host}");
    }
    let absolute = world.anonymous().get("http://evil.example/api/me").await;
    assert_eq!(absolute.told(), "421 host_refused");
    let probe = world.anonymous().send("GET", "/livez", None, &[("host", "10.0.0.7:7420")]).await;
    assert_eq!(probe.told(), "200", "an orchestrator knows an address only");
}

// proves: C-N19, RT-14
#[tokio::test]
async fn other_methods_unknown_paths_and_cross_origin_get_nothing() {
    let world = World::new().await;
    let admin = world.client(Role::Admin).await;
    for method in ["DELETE", "TRACE", "OPTIONS", "PATCH"] {
        let answer = admin.send(method, "/api/mcp/tools", None, &[]).await;
        assert_eq!(answer.told(), "405 method_not_allowed", "{method}");
    }
    let elsewhere = [("origin", "https://evil.example")];
    assert_eq!(admin.send("OPTIONS", "/api/mcp/tools", None, &elsewhere).await.told(), "403 origin_refused");
    assert_eq!(admin.send("GET", "/api/mcp/tools", None, &elsewhere).await.told(), "403 origin_refused");
    let list = admin.send("GET", "/api/mcp/tools", None, &[("origin", "https://coreci.example")]).await;
    for name in ["access-control-allow-origin", "mcp-session-id", "mcp-protocol-version"] {
        assert!(!list.headers.contains_key(name), "{name}");
    }
    assert_eq!(admin.get("/api/nothing").await.told(), "404 not_found");
}
