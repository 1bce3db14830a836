//! Whom the client believes, and what it tells of whom it does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::testing::{FakeServer, Reply, StaticResolver, loopback_policy};
use egress::{EgressError, Get, TlsProbe, TlsTrust};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{client, client_of, client_trusting};

async fn answering(server: FakeServer) -> FakeServer {
    server.fallback(Reply::json(200, json!({})));
    server
}

fn get() -> Get {
    Get::path(["x"]).secret_header("authorization", "Bearer s3cret")
}

// proves: C-I01
#[tokio::test]
async fn an_unknown_certificate_is_reported_and_gets_nothing() {
    for server in [FakeServer::https().await, FakeServer::https_self_signed().await] {
        let server = answering(server).await;
        let other = FakeServer::https().await;
        for trust in [TlsTrust::System, TlsTrust::CaPem(other.ca_pem())] {
            let client = client_trusting(&server, trust);
            let error = client.get(get()).await.unwrap_err();
            assert_eq!(error, EgressError::TlsUntrusted { fingerprint: server.fingerprint() });
            let probe = client.probe_tls().await;
            assert_eq!(probe, TlsProbe::Untrusted { fingerprint_hex: server.fingerprint() });
        }
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn a_given_authority_is_believed() {
    for server in [
        FakeServer::https().await,
        FakeServer::https_self_signed().await,
        FakeServer::https_tls12_only().await,
    ] {
        let server = answering(server).await;
        let client = client_of(&server);
        assert_eq!(client.get(get()).await.unwrap().status, 200);
        assert_eq!(client.probe_tls().await, TlsProbe::Ok);
        assert_eq!(server.requests().len(), 1, "a probe asks nothing");
    }
}

// proves: C-I02
#[tokio::test]
async fn a_pin_believes_one_certificate_whatever_its_name() {
    let server = answering(FakeServer::https_for(&["somewhere.else"]).await).await;

    let by_name = client_of(&server);
    let error = by_name.get(get()).await.unwrap_err();
    assert_eq!(error, EgressError::TlsUntrusted { fingerprint: server.fingerprint() }, "the wrong name");

    let pinned = client_trusting(&server, TlsTrust::pin(&server.fingerprint()).unwrap());
    assert_eq!(pinned.get(get()).await.unwrap().status, 200);
}

// proves: C-I03, C-I04
#[tokio::test]
async fn a_changed_certificate_gets_no_byte() {
    let (server, impostor) =
        (answering(FakeServer::https().await).await, answering(FakeServer::https().await).await);
    let pin = TlsTrust::pin(&server.fingerprint()).unwrap();

    let fooled = client_trusting(&impostor, pin.clone());
    let error = fooled.get(get()).await.unwrap_err();

    assert_eq!(error, EgressError::PinMismatch { presented: impostor.fingerprint() });
    assert_eq!(fooled.probe_tls().await, TlsProbe::PinMismatch { presented: impostor.fingerprint() });
    assert!(impostor.requests().is_empty(), "the token was not sent");
    // One client's pin is no other client's trust.
    assert!(client_trusting(&server, pin).get(get()).await.is_ok());
    assert!(client_trusting(&server, TlsTrust::System).get(get()).await.is_err());
}

/// A certificate is public. Whoever shows it must also sign the handshake with its key.
// proves: C-I03
#[tokio::test]
async fn a_copied_certificate_is_no_identity() {
    for server in [FakeServer::https().await, FakeServer::https_tls12_only().await] {
        let copycat = answering(FakeServer::https_without_the_key_of(&server).await).await;
        for trust in [TlsTrust::pin(&server.fingerprint()).unwrap(), TlsTrust::CaPem(server.ca_pem())] {
            let error = client_trusting(&copycat, trust).get(get()).await.unwrap_err();
            assert_eq!(error, EgressError::TlsHandshake);
        }
        assert!(copycat.accepted() > 0 && copycat.requests().is_empty());
    }
}

// proves: C-I06
#[tokio::test]
async fn what_is_not_tls_is_refused_and_slow_tls_not_waited_for() {
    // Plain HTTP; and the answer of a server that speaks TLS 1.0 or 1.1 only.
    let hello = |version| {
        [&[0x16, 3, version, 0, 0x2a, 2, 0, 0, 0x26, 3, version], &[7; 32][..], &[0, 0xc0, 0x13, 0]].concat()
    };
    for answer in [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(), hello(1), hello(2)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let wrong = tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            tcp.read_buf(&mut got).await.unwrap();
            tcp.write_all(&answer).await.unwrap();
            let _ = tcp.read_to_end(&mut got).await;
            got
        });
        let plain = client(&url, TlsTrust::System, loopback_policy(), Arc::new(StaticResolver::loopback()));
        assert_eq!(plain.get(get()).await.unwrap_err(), EgressError::TlsHandshake);
        let got = wrong.await.unwrap();
        assert!(!got.windows(6).any(|window| window == b"s3cret"));
    }

    // A record of TLS whose rest does not come.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let drip = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        for byte in [0x16, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(0)) {
            if tcp.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let slow = client(&url, TlsTrust::System, loopback_policy(), Arc::new(StaticResolver::loopback()));
    let start = Instant::now();
    assert_eq!(slow.get(get()).await.unwrap_err(), EgressError::Timeout);
    assert!((4..7).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    drip.abort();
}
