//! One table of hosts, and each way by which a host can come in: typed, called after the policy became stricter,
//! in a redirect, and from a resolver.

use std::net::IpAddr;
use std::sync::Arc;

use egress::testing::{FakeServer, FlippingResolver, Reply, StaticResolver, loopback_policy};
use egress::{EgressError, EgressPolicy, EgressUrl, Get, Mode, Refusal, TlsTrust, UpstreamClient};
use proptest::prelude::*;
use url::Host;

use crate::support::{client, strict};

/// What the default policy refuses, with the case it stands for.
const REFUSED: &[(&str, &str)] = &[
    ("C-H01", "https://2130706433/"),
    ("C-H01", "https://0177.0.0.1/"),
    ("C-H01", "https://0x7f.1/"),
    ("C-H01", "https://127.1/"),
    ("C-H01", "https://0/"),
    ("C-H01", "https://①②⑦.⓪.⓪.①/"),
    ("C-H01", "https://127。0。0。1/"),
    ("C-H01", "https://%31%32%37.0.0.1/"),
    ("C-H01", "https://127.0.0.1./"),
    ("C-H02", "https://[::1]/"),
    ("C-H02", "https://[::]/"),
    ("C-H02", "https://[::ffff:127.0.0.1]/"),
    ("C-H02", "https://[::127.0.0.1]/"),
    ("C-H02", "https://[64:ff9b::a9fe:a9fe]/"),
    ("C-H02", "https://[64:ff9b:1::]/"),
    ("C-H02", "https://[2002:7f00:1::]/"),
    ("C-H02", "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/"),
    ("C-H02", "https://[fe80::1]/"),
    ("C-H02", "https://[fc00::1]/"),
    ("C-H02", "https://[fd00:ec2::254]/"),
    ("C-H02", "https://[2a00:1450::5efe:10.0.0.1]/"),
    ("C-H03", "https://0.0.0.0/"),
    ("C-H03", "https://10.0.0.1/"),
    ("C-H03", "https://100.64.0.1/"),
    ("C-H03", "https://127.255.255.255/"),
    ("C-H03", "https://169.254.0.1/"),
    ("C-H03", "https://172.31.255.255/"),
    ("C-H03", "https://192.0.0.8/"),
    ("C-H03", "https://192.0.2.1/"),
    ("C-H03", "https://192.88.99.1/"),
    ("C-H03", "https://192.168.255.255/"),
    ("C-H03", "https://198.19.255.255/"),
    ("C-H03", "https://198.51.100.1/"),
    ("C-H03", "https://203.0.113.1/"),
    ("C-H03", "https://224.0.0.1/"),
    ("C-H03", "https://255.255.255.255/"),
    ("C-H04", "https://169.254.169.254/latest/meta-data/"),
    ("C-H04", "https://169.254.170.2/"),
    ("C-H04", "https://100.100.100.200/"),
    ("C-H04", "https://168.63.129.16/"),
    ("C-H04", "https://192.0.0.192/"),
    ("C-H04", "https://metadata.google.internal/"),
    ("C-H04", "https://METADATA.google.internal./"),
    ("C-H05", "https://localhost/"),
    ("C-H05", "https://localhost./"),
    ("C-H05", "https://foo.localhost/"),
    ("C-H06", "https://good@127.0.0.1/"),
    ("C-H06", "https://user:pass@example.com/"),
    ("C-H06", "https://@example.com/"),
    ("C-H06", "https://:@example.com/"),
    ("C-H08", "file:///etc/passwd"),
    ("C-H08", "gopher://example.com/"),
    ("C-H08", "ftp://example.com/"),
    ("C-H08", "ws://example.com/"),
    ("C-H08", "data:text/plain,hello"),
    ("C-H08", "javascript:alert(1)"),
    ("C-H08", "http://example.com/"),
    ("C-H09", "https://example.com:22/"),
    ("C-H09", "https://example.com:25/"),
    ("C-H09", "https://example.com:5432/"),
    ("C-H09", "https://example.com:6379/"),
    ("C-H09", "https://example.com:0/"),
    ("C-H09", "https://example.com:65536/"),
    ("parse", "https://example.com\\@127.0.0.1/"),
    ("parse", "https:\\\\127.0.0.1\\"),
    ("parse", " https://example.com/"),
    ("parse", "https://exa\tmple.com/"),
    ("parse", "https://example.com/\n"),
    ("parse", "https://example.com/\u{a0}"),
    ("parse", "https://example.com/#fragment"),
    ("parse", "https://"),
    ("parse", "https:example.com"),
    ("parse", "https:/example.com"),
    ("parse", "https:////example.com"),
    ("C-H25", "https://a..example.com/"),
    ("C-H25", "https://exa mple.com/"),
];

/// What is refused only where many customers share a network.
const LOCAL_NAMES: [&str; 6] = [
    "https://metrics.internal/",
    "https://printer.local/",
    "https://intranet/",
    "https://nas.lan/",
    "https://pve.home.arpa/",
    "https://db/",
];

fn strict_policies() -> [EgressPolicy; 2] {
    [EgressPolicy::default(), EgressPolicy { mode: Mode::Saas, ..EgressPolicy::default() }]
}

// proves: C-H01, C-H02, C-H03, C-H04, C-H05, C-H06, C-H08, C-H09
#[test]
fn refused_when_typed() {
    for policy in strict_policies() {
        for (case, url) in REFUSED {
            assert!(EgressUrl::parse(url, &policy).is_err(), "{case}: {url} under {:?}", policy.mode);
        }
    }
    for url in LOCAL_NAMES {
        assert!(matches!(EgressUrl::parse(url, &strict_policies()[1]), Err(Refusal::Name { .. })), "{url}");
        assert!(
            EgressUrl::parse(url, &EgressPolicy::default()).is_ok(),
            "{url} may be a host of the operator's"
        );
    }
}

#[test]
fn accepted_when_typed() {
    for policy in strict_policies() {
        for (url, shown) in [
            ("https://api.github.com", "https://api.github.com/"),
            ("https://Pve.Example.com:8006", "https://pve.example.com:8006/"),
            ("https://8.8.8.8/", "https://8.8.8.8/"),
            ("https://[2a00:1450:4001::200e]:8443/x", "https://[2a00:1450:4001::200e]:8443/x"),
            ("https://host.example/api/v3?key=s3cret", "https://host.example/api/v3"),
            ("https://a_b.example.com/", "https://a_b.example.com/"),
        ] {
            assert_eq!(EgressUrl::parse(url, &policy).unwrap().to_string(), shown);
        }
    }
}

// proves: C-H25
#[test]
fn odd_names_are_refused_or_plain() {
    let policy = EgressPolicy::default();
    let parsed =
        |host: &str| EgressUrl::parse(&format!("https://{host}/"), &policy).map(|url| url.host().to_owned());
    assert_eq!(parsed("gіthub.com").as_deref(), Ok("xn--gthub-n2e.com"), "a Cyrillic letter shows itself");
    assert!(parsed("xn--gthub-n2e.com").is_ok());
    for host in [
        format!("{}.com", "a".repeat(64)),
        format!("{}com", "a.".repeat(130)),
        "a".repeat(3000),
        ".example.com".into(),
        "example.com..".into(),
        "xn--".into(),
        "1.2.3.4.5".into(),
        "256.1.1.1".into(),
        "[::1%25eth0]".into(),
        "exa%00mple.com".into(),
    ] {
        assert!(parsed(&host).is_err(), "{host}");
    }
}

/// The URL was saved when the policy allowed it; the guard of the call decides anew, before any lookup.
// proves: C-H14, C-H10
#[tokio::test]
async fn refused_when_called_later() {
    let hostile = FakeServer::https().await;
    let port = hostile.address().port();
    for host in
        ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[::1]", "10.0.0.1", "192.168.1.1"]
    {
        let resolver = Arc::new(StaticResolver::new([IpAddr::from([93, 184, 216, 34])]));
        let url = format!("https://{host}:{port}/");
        let client = client(&url, TlsTrust::System, Arc::new(strict(&hostile)), resolver.clone());

        let error = client.get(Get::path(["x"])).await.unwrap_err();

        assert!(matches!(error, EgressError::Refused(Refusal::Address { .. })), "{host}: {error:?}");
        assert_eq!(resolver.asked(), 0, "a literal is not looked up");
    }
    assert_eq!(hostile.accepted(), 0);
}

// proves: C-H15, C-H16
#[tokio::test]
async fn refused_as_a_redirect() {
    let policy = Arc::new(EgressPolicy::default());
    let base = EgressUrl::parse("https://gitea.example/root/", &policy).unwrap();
    let resolver = Arc::new(StaticResolver::loopback());
    let client = UpstreamClient::new(base, TlsTrust::System, policy, resolver).unwrap();
    let get = || Get::path(["repos"]).secret_header("authorization", "token t");

    let elsewhere = [
        "http://gitea.example/x",
        "https://gitea.example:8443/x",
        "https://user@gitea.example/x",
        "https://other.example/x",
        "//other.example/x",
        "//@gitea.example/x",
    ];
    for location in REFUSED.iter().map(|(_, url)| *url).chain(elsewhere) {
        assert!(get().follow_same_origin(location, &client).is_err(), "{location}");
    }
    assert_eq!(
        get().follow_same_origin("https://other.example/x", &client).unwrap_err(),
        Refusal::OtherOrigin
    );
    for location in [
        "/x",
        "x?page=2",
        "/a//b@c",
        "/x#part",
        "https://gitea.example/x",
        "https://GITEA.example:443/x",
        "//gitea.example/x",
    ] {
        assert!(get().follow_same_origin(location, &client).is_ok(), "{location}");
    }
}

/// Every literal of the table, now as the answer of a resolver.
// proves: C-H10, C-H11, C-H20
#[tokio::test]
async fn refused_when_resolved() {
    let hostile = FakeServer::https().await;
    let mut tried = 0;
    for (case, url) in REFUSED {
        let Ok(Some(host)) = url::Url::parse(url).map(|url| url.host().map(|host| host.to_owned())) else {
            continue;
        };
        let address: IpAddr = match host {
            Host::Domain(_) => continue,
            Host::Ipv4(address) => address.into(),
            Host::Ipv6(address) => address.into(),
        };
        tried += 1;
        let public = IpAddr::from([93, 184, 216, 34]);
        for answer in [vec![address], vec![public, address], vec![address, public]] {
            let url = hostile.url_as("name.example");
            let resolver = Arc::new(StaticResolver::new(answer));
            let client = client(&url, TlsTrust::System, Arc::new(strict(&hostile)), resolver);

            let error = client.get(Get::path(["x"])).await.unwrap_err();

            let EgressError::Refused(Refusal::Address { host, .. }) = &error else {
                panic!("{case} {address}: {error:?}")
            };
            assert_eq!(host, "name.example");
            assert!(
                !error.to_string().contains(&address.to_string()),
                "what was resolved is not told: {error}"
            );
        }
    }
    assert!(tried > 30);
    assert_eq!(hostile.accepted(), 0);
}

/// A name that is a good host when asked first and a bad one ever after. One connection asks once and dials what it
/// was told, so that the second answer counts for the second connection only, where it is refused.
// proves: C-H12
#[cfg(target_os = "linux")]
#[tokio::test]
async fn rebinding_reaches_nobody() {
    let good = FakeServer::https_at(IpAddr::from([127, 0, 0, 2])).await;
    good.fallback(Reply::raw(200, "", &[("connection", "close")], ""));
    let hostile = std::net::TcpListener::bind(("127.0.0.1", good.address().port())).unwrap();
    hostile.set_nonblocking(true).unwrap();
    let resolver =
        Arc::new(FlippingResolver::new([vec![good.address().ip()], vec![IpAddr::from([127, 0, 0, 1])]]));
    let policy = EgressPolicy { deny_hosts: vec!["127.0.0.1".into()], ..(*loopback_policy()).clone() };
    let trust = TlsTrust::CaPem(good.ca_pem());
    let client = client(&good.url_as("localhost"), trust, Arc::new(policy), resolver.clone());

    assert_eq!(client.get(Get::path(["x"])).await.unwrap().status, 200);
    assert_eq!(resolver.asked(), 1, "one lookup for one connection");
    for _ in 0..3 {
        let error = client.get(Get::path(["x"])).await.unwrap_err();
        assert!(matches!(error, EgressError::Refused(_)), "{error:?}");
    }
    assert_eq!((resolver.asked(), good.accepted()), (4, 1));
    let met = hostile.accept().map(|_| ()).unwrap_err();
    assert_eq!(met.kind(), std::io::ErrorKind::WouldBlock, "the hostile listener saw nobody");
}

/// All refusals of one kind read the same, whatever is behind the address.
// proves: C-H21, C-H22
#[tokio::test]
async fn open_and_closed_ports_look_alike() {
    let open = FakeServer::https().await;
    let mut texts = Vec::new();
    let mut times = Vec::new();
    for address in [[127, 0, 0, 1], [127, 0, 0, 2], [10, 255, 255, 1], [169, 254, 169, 254]] {
        let resolver = Arc::new(StaticResolver::new([IpAddr::from(address)]));
        let policy = Arc::new(EgressPolicy { mode: Mode::Saas, ..strict(&open) });
        let client = client(&open.url_as("name.example"), TlsTrust::System, policy, resolver);
        let start = std::time::Instant::now();
        let error = client.get(Get::path(["x"])).await.unwrap_err();
        times.push(start.elapsed());
        let EgressError::Refused(refusal) = &error else { panic!("{error:?}") };
        texts.push((error.to_string(), refusal.hint()));
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert!(times.iter().all(|time| time.as_millis() < 50), "no packet was waited for: {times:?}");
    assert_eq!(open.accepted(), 0);
}

// proves: C-H23
#[tokio::test]
async fn our_own_listener_is_not_dialled() {
    let own = FakeServer::https().await;
    let policy = EgressPolicy { own_addresses: vec![own.address()], ..(*loopback_policy()).clone() };
    assert!(EgressUrl::parse(&own.url(), &policy).is_err());
    let client = client(
        &own.url_as("us.example"),
        TlsTrust::CaPem(own.ca_pem()),
        Arc::new(policy),
        Arc::new(StaticResolver::loopback()),
    );
    assert!(matches!(client.get(Get::path(["x"])).await, Err(EgressError::Refused(_))));
    assert_eq!(own.accepted(), 0);
}

// proves: C-H08, C-H24
#[tokio::test]
async fn plain_http_goes_to_allowed_private_addresses_only() {
    let policy = EgressPolicy {
        allow_http: true,
        ports: vec![80, 3000],
        allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()],
        ..EgressPolicy::default()
    };
    assert!(EgressUrl::parse("http://10.1.2.3:3000/", &policy).is_ok());
    assert!(matches!(EgressUrl::parse("http://8.8.8.8:3000/", &policy), Err(Refusal::PlainHttp { .. })));
    assert!(matches!(EgressUrl::parse("http://192.168.1.1:3000/", &policy), Err(Refusal::Address { .. })));
    // A name is known only when it is resolved.
    let url = EgressUrl::parse("http://gitea.example:3000/", &policy).unwrap();
    let resolver = Arc::new(StaticResolver::new([IpAddr::from([93, 184, 216, 34])]));
    let client = UpstreamClient::new(url, TlsTrust::System, Arc::new(policy), resolver).unwrap();
    let error = client.get(Get::path(["x"])).await.unwrap_err();
    assert!(matches!(error, EgressError::Refused(Refusal::PlainHttp { .. })), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// No text makes it panic, and what it accepts it accepts again as it writes it.
    // proves: C-H25
    #[test]
    fn any_text_is_refused_or_read_one_way(text in "(https?:)?/{0,3}.{0,40}") {
        for policy in strict_policies() {
            if let Ok(url) = EgressUrl::parse(&text, &policy) {
                let again = EgressUrl::parse(&url.to_string(), &policy);
                prop_assert_eq!(again.map(|again| (again.host().to_owned(), again.port())), Ok((url.host().to_owned(), url.port())));
            }
        }
    }

    /// Nor any spelling of an address that is not to be dialled.
    // proves: C-H01, C-H03
    #[test]
    fn no_spelling_opens_a_private_address(low in any::<u32>(), block in 0_usize..5, spelling in 0_usize..7) {
        let (base, bits) = [(0x7f00_0000_u32, 24), (0x0a00_0000, 24), (0xa9fe_0000, 16), (0xc0a8_0000, 16), (0xac10_0000, 20)][block];
        let address = base | low & ((1 << bits) - 1);
        let [a, b, c, d] = address.to_be_bytes();
        let (high, tail) = (address >> 16, address & 0xffff);
        let host = match spelling {
            0 => address.to_string(),
            1 => format!("{address:#x}"),
            2 => format!("0{address:o}"),
            3 => format!("{a}.{}", address & 0x00ff_ffff),
            4 => format!("{a:#x}.0{b:o}.{}", u32::from(c) << 8 | u32::from(d)),
            5 => format!("[::ffff:{high:x}:{tail:x}]"),
            _ => format!("%{:02x}{}.{b}.{c}.{d}.", a.to_string().as_bytes()[0], &a.to_string()[1..]),
        };
        let verdict = EgressUrl::parse(&format!("https://{host}/"), &EgressPolicy::default());
        prop_assert!(matches!(verdict, Err(Refusal::Address { .. })), "{host}: {verdict:?}");
    }
}
