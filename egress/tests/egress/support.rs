//! Clients for tests.

use std::sync::Arc;

use egress::testing::{FakeServer, StaticResolver, loopback_policy};
use egress::{EgressPolicy, EgressUrl, Resolver, TlsTrust, UpstreamClient};

/// A client of the server, by its authority, under the policy for loopback.
pub(crate) fn client_of(server: &FakeServer) -> UpstreamClient {
    client(
        &server.url(),
        TlsTrust::CaPem(server.ca_pem()),
        loopback_policy(),
        Arc::new(StaticResolver::loopback()),
    )
}

/// The same, believing whom the test says.
pub(crate) fn client_trusting(server: &FakeServer, trust: TlsTrust) -> UpstreamClient {
    client(&server.url(), trust, loopback_policy(), Arc::new(StaticResolver::loopback()))
}

/// A client of a URL that was saved under the policy for loopback and is called under the test's.
pub(crate) fn client(
    url: &str,
    trust: TlsTrust,
    policy: Arc<EgressPolicy>,
    resolver: Arc<dyn Resolver>,
) -> UpstreamClient {
    let saved_under = EgressPolicy {
        allow_cidrs: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
            .map(|cidr| cidr.parse().expect("the ranges are fixed"))
            .to_vec(),
        ..(*loopback_policy()).clone()
    };
    let url = EgressUrl::parse(url, &saved_under).expect("the lax policy takes what tests use");
    UpstreamClient::new(url, trust, policy, resolver).expect("tests trust something")
}

/// The default policy, with the port of a server.
pub(crate) fn strict(server: &FakeServer) -> EgressPolicy {
    EgressPolicy { ports: vec![443, server.address().port()], allow_http: true, ..EgressPolicy::default() }
}
