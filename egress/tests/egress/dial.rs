//! Lookups and connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::testing::{FakeServer, Reply, SlowResolver, StaticResolver, loopback_policy};
use egress::{EgressError, Get, ResolveError, Resolver, SystemResolver, TlsProbe, TlsTrust};

use crate::support::{client, client_of};

// proves: C-H27, C-H20
#[tokio::test]
async fn a_resolver_that_fails_may_be_asked_again_and_a_no_is_final() {
    let server = FakeServer::https().await;
    for (answer, retryable) in [
        (StaticResolver::failing(ResolveError::NotFound), false),
        (StaticResolver::failing(ResolveError::Unavailable), true),
        (StaticResolver::new([]), false),
    ] {
        let url = server.url_as("name.example");
        let client = client(&url, TlsTrust::System, loopback_policy(), Arc::new(answer));
        assert_eq!(client.get(Get::path(["x"])).await.unwrap_err(), EgressError::Dns { retryable });
        assert_eq!(client.probe_tls().await, TlsProbe::Dns { retryable });
    }
}

// proves: C-H27
#[tokio::test(start_paused = true)]
async fn slow_lookups_are_not_waited_for() {
    let slow = Arc::new(SlowResolver(Duration::from_secs(30)));
    let client = client("https://name.example", TlsTrust::System, loopback_policy(), slow);
    let start = tokio::time::Instant::now();
    let error = client.get(Get::path(["x"])).await.unwrap_err();
    assert_eq!(error, EgressError::Dns { retryable: true });
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn the_systems_resolver_knows_localhost_and_not_nonsense() {
    let found = SystemResolver.resolve("localhost").await.unwrap();
    assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
    // Without a network it may not know either; it must not find one.
    assert!(SystemResolver.resolve("nonsense.invalid").await.is_err());
}

/// The first address takes no connection, the second does.
// proves: C-H27
#[tokio::test]
async fn the_next_address_is_tried() {
    let server = FakeServer::https().await;
    server.fallback(Reply::raw(200, "", &[], "hello"));
    let resolver =
        Arc::new(StaticResolver::new([IpAddr::from([127, 0, 0, 9]), IpAddr::from([127, 0, 0, 1])]));
    let trust = TlsTrust::CaPem(server.ca_pem());
    let client = client(&server.url_as("localhost"), trust, loopback_policy(), resolver.clone());
    assert_eq!(client.get(Get::path(["x"])).await.unwrap().body, "hello");
    assert_eq!(resolver.asked(), 1);
}

#[tokio::test]
async fn nobody_listening_is_told() {
    let gone = FakeServer::https().await;
    let client = client_of(&gone);
    drop(gone);
    // The listener closes when its task ends, a moment later.
    let error = loop {
        match client.get(Get::path(["x"])).await {
            Err(EgressError::Connect) => break EgressError::Connect,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(client.probe_tls().await, TlsProbe::Unreachable(error));
}

#[tokio::test]
async fn a_connection_is_used_again_and_replaced_when_it_died() {
    let server = FakeServer::https().await;
    server.on("/kept", Reply::raw(200, "", &[], "a"));
    server.on("/closed", Reply::raw(200, "", &[("connection", "close")], "b"));
    let resolver = Arc::new(StaticResolver::loopback());
    let trust = TlsTrust::CaPem(server.ca_pem());
    let client = client(&server.url_as("localhost"), trust, loopback_policy(), resolver.clone());
    for path in ["kept", "kept", "closed"] {
        client.get(Get::path([path])).await.unwrap();
    }
    assert_eq!((server.accepted(), resolver.asked()), (1, 1));
    client.get(Get::path(["kept"])).await.unwrap();
    assert_eq!((server.accepted(), resolver.asked()), (2, 2), "a new connection asks and vets again");
}

// proves: C-N12
#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let server = FakeServer::https().await;
    server.on("/silent", Reply::silence());
    server.on("/x", Reply::raw(200, "", &[], ""));
    let client = client_of(&server);
    let start = Instant::now();
    let soon = tokio::time::Instant::now() + Duration::from_millis(300);
    let error = client.get(Get::path(["silent"]).deadline(soon)).await.unwrap_err();
    assert_eq!(error, EgressError::Timeout);
    assert!(start.elapsed() < Duration::from_secs(2));
    client.get(Get::path(["x"])).await.unwrap();
    assert_eq!(server.accepted(), 2, "the connection with the answer still due is not used again");
}

#[tokio::test]
async fn an_idle_connection_lives_for_half_a_minute() {
    let server = FakeServer::https().await;
    server.on("/x", Reply::raw(200, "", &[], ""));
    let client = client_of(&server);
    for (idle_secs, accepted) in [(0, 1), (29, 1), (31, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(idle_secs)).await;
        tokio::time::resume();
        client.get(Get::path(["x"])).await.unwrap();
        assert_eq!(server.accepted(), accepted, "after {idle_secs} s");
    }
}
