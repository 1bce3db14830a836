//! What comes back, when it comes back badly.

use std::time::{Duration, Instant};

use egress::testing::{FakeServer, Reply};
use egress::{EgressError, Get};

use crate::support::{client, client_of};

async fn ask(server: &FakeServer, path: &'static str) -> Result<egress::Response, EgressError> {
    client_of(server).get(Get::path([path])).await
}

#[tokio::test]
async fn statuses_and_reasons_are_kept() {
    let server = FakeServer::https().await;
    server.on("/401", Reply::raw(401, "No ticket", &[], ""));
    server.on("/595", Reply::raw(595, "No route to host", &[], ""));
    server.on("/596", Reply::raw(596, "tls_process_server_certificate: error", &[], ""));
    server.on("/500", Reply::raw(500, "", &[], "{}"));
    for (path, status, reason) in [
        ("401", 401, "No ticket"),
        ("595", 595, "No route to host"),
        ("596", 596, "tls_process_server_certificate: error"),
        ("500", 500, "Internal Server Error"),
    ] {
        let response = ask(&server, path).await.unwrap();
        assert_eq!((response.status, response.reason.as_deref()), (status, Some(reason)));
        assert!(response.body_complete);
    }
}

/// As Proxmox VE did until April 2025.
// proves: C-N12
#[tokio::test]
async fn an_end_without_close_notify_keeps_the_status() {
    let server = FakeServer::https().await;
    server.on("/401", Reply::raw(401, "No ticket", &[], "half of a mess").no_close_notify());
    server.on("/401-empty", Reply::raw(401, "No ticket", &[], "").no_close_notify());
    server.on("/200", Reply::raw(200, "", &[], "{\"data\":1}").no_close_notify());
    for path in ["401", "401-empty"] {
        let refused = ask(&server, path).await.unwrap();
        assert_eq!((refused.status, refused.reason.as_deref()), (401, Some("No ticket")));
        assert!(refused.body.is_empty() && !refused.body_complete);
    }
    let fine = ask(&server, "200").await.unwrap();
    assert_eq!((fine.status, &fine.body[..], fine.body_complete), (200, &b"{\"data\":1}"[..], false));
}

// proves: C-N12
#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    let server = FakeServer::https().await;
    server.on("/200", Reply::raw(200, "", &[], "0123456789").cut_after(5));
    server.on("/500", Reply::raw(500, "", &[], "0123456789").cut_after(5));
    server.on("/short", Reply::raw(200, "", &[("content-length", "10"), ("connection", "close")], "01234"));
    server.on(
        "/chunks",
        Reply::raw(200, "", &[("transfer-encoding", "chunked"), ("connection", "close")], "5\r\n01234\r\n"),
    );
    server.on(
        "/no-chunks",
        Reply::raw(200, "", &[("transfer-encoding", "chunked"), ("connection", "close")], "zz\r\n"),
    );
    match ask(&server, "200").await {
        Ok(response) => assert!(!response.body_complete, "a reset may look like an end"),
        Err(error) => assert!(matches!(error, EgressError::Broken(_)), "{error:?}"),
    }
    let failed = ask(&server, "500").await.unwrap();
    assert!(failed.status == 500 && failed.body.is_empty() && !failed.body_complete);
    for path in ["short", "chunks"] {
        let cut = ask(&server, path).await.unwrap();
        assert!(cut.body == "01234" && !cut.body_complete, "{path}");
    }
    assert!(matches!(ask(&server, "no-chunks").await, Err(EgressError::Broken(_))));
}

// proves: C-N10
#[tokio::test]
async fn four_mebibytes_are_read_and_no_more() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let server = FakeServer::https().await;
    server.on("/fits", Reply::raw(200, "", &[], vec![b'x'; LIMIT]));
    server.on("/over", Reply::raw(200, "", &[], vec![b'x'; LIMIT + 1]));
    server
        .on("/promised", Reply::raw(200, "", &[("content-length", "1000000000")], "").delay(Duration::ZERO));
    server.on("/blanks", Reply::raw(200, "", &[], "").endless());
    server.on(
        "/chunks",
        Reply::raw(
            200,
            "",
            &[("transfer-encoding", "chunked")],
            "400\r\n".to_owned() + &"x".repeat(1024) + "\r\n",
        )
        .endless(),
    );
    server.on("/error", Reply::raw(500, "", &[], "").endless());
    assert_eq!(ask(&server, "fits").await.unwrap().body.len(), LIMIT);
    for path in ["over", "promised", "blanks", "chunks", "error"] {
        assert_eq!(ask(&server, path).await.unwrap_err(), EgressError::TooLarge, "{path}");
    }
    // What is compressed unasked stays so: no bomb goes off.
    server.on("/gzip", Reply::raw(200, "", &[("content-encoding", "gzip")], vec![0x1f, 0x8b, 8, 0]));
    assert_eq!(&ask(&server, "gzip").await.unwrap().body[..], [0x1f, 0x8b, 8, 0]);
}

// proves: C-N11
#[tokio::test]
async fn what_is_not_http_is_not_repeated() {
    let server = FakeServer::http().await;
    server.on("/huge-head", Reply::raw(200, "", &[("x", &"y".repeat(200_000))], ""));
    server.on("/many", Reply::raw(200, "", &vec![("x", "y"); 500], ""));
    server.on("/bad-utf8", Reply::raw(200, "", &[("content-type", "text/html")], vec![0xff, 0xfe, b'<']));
    let client = client(
        &server.url(),
        egress::TlsTrust::System,
        egress::testing::loopback_policy(),
        std::sync::Arc::new(egress::testing::StaticResolver::loopback()),
    );
    for path in ["huge-head", "many"] {
        let error = client.get(Get::path([path])).await.unwrap_err();
        assert!(matches!(error, EgressError::Broken(_)), "{path}: {error:?}");
    }
    let page = client.get(Get::path(["bad-utf8"])).await.unwrap();
    assert_eq!(&page.body[..], [0xff, 0xfe, b'<'], "handed over as it is, for the reader to refuse");
    assert!(!format!("{page:?}").contains("html"));
}

// proves: C-N12
#[tokio::test]
async fn the_deadline_holds_against_drips_and_silence() {
    let server = FakeServer::https().await;
    server.on("/drip", Reply::raw(200, "", &[], vec![b'x'; 100]).drip(Duration::from_secs(1)));
    server.on("/late", Reply::raw(200, "", &[], "x").delay(Duration::from_secs(60)));
    let start = Instant::now();
    let (drip, late) = tokio::join!(ask(&server, "drip"), ask(&server, "late"));
    assert_eq!((drip.unwrap_err(), late.unwrap_err()), (EgressError::Timeout, EgressError::Timeout));
    assert!((9..12).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}
