//! MCP's official conformance suite against our transport with the tools that the suite brings along: what is served is
//! the product's own, from the socket to the wire of MCP, and only the registry behind it is another. It is mounted here
//! and nowhere else; the nine tools meet the suite in `control-plane-bin/tests/peers`.

mod fixtures;
#[path = "../../../control-plane-bin/tests/peers/program.rs"]
mod program;
#[path = "../../../control-plane-bin/tests/peers/suite.rs"]
mod suite;
#[expect(dead_code, reason = "written for the other tests of the crate, which use more of it")]
#[path = "../http_api/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use http_api::{Server, ServerLimits, public_router};
use identity::Role;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fixtures::FixtureTools;
use crate::world::World;

// proves: X2-01, M-12
#[tokio::test]
async fn the_suites_own_tools_answer_as_it_expects_wherever_one_answer_is_enough() {
    let world = World::offering(Arc::new(FixtureTools)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let server = Server::new(listener, public_router(Arc::clone(&world.api)), ServerLimits::default());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.run(stop.clone(), Duration::from_secs(1)));

    let key = world.key_of(world.tenant, Role::Operator).await;
    let found = suite::run(&url, &key, "fixtures").await;
    assert_eq!(found, [(27, 10), (33, 12), (50, 14)]);
    stop.cancel();
    serving.await.expect("it ends");
}
