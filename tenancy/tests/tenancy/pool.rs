//! One connection, many borrowers: what one leaves behind must never reach the next.

use std::time::{Duration, Instant};

use mcp_core::id::TenantId;
use tenancy::stores::tenant::tenant_get;
use tenancy::testing::TestDatabase;
use tenancy::{PoolSize, Tenancy, TenancyError, TenantTx};
use tokio::time::timeout;

/// The only slug a transaction sees.
async fn visible(tx: &TenantTx) -> String {
    let rows = tx.query("select slug from tenants", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows[0].get(0)
}

async fn in_transaction(database: &TestDatabase) -> i64 {
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and usename = 'coreci_app' and state like 'idle in transaction%'";
    database.admin_client().await.query_one(sql, &[]).await.unwrap().get(0)
}

/// Waits for the rollbacks that run in the background: the pool's only connection comes back after them.
async fn settle(tenancy: &Tenancy) {
    tenancy.ping().await.unwrap();
}

// proves: C-C04
#[tokio::test]
async fn ten_thousand_alternations_on_one_connection_never_mix_two_tenants() {
    let database = TestDatabase::new().await;
    let (a, b) = (database.create_tenant("a").await, database.create_tenant("b").await);
    let tenancy = database.tenancy_of(PoolSize::new(1));
    for round in 0..10_000 {
        let (tenant, slug) = if round % 2 == 0 { (a, "a") } else { (b, "b") };
        let tx = tenancy.tx(tenant).await.unwrap();
        assert_eq!(visible(&tx).await, slug, "round {round}");
        match round % 11 {
            0 => tx.commit().await.unwrap(),
            1 => tx.rollback().await.unwrap(),
            2 => drop(tx),
            3 => {
                tx.execute("select 1 / 0", &[]).await.unwrap_err();
            }
            4 => {
                // The client is gone while the statement runs.
                let slow = tx.execute("select pg_sleep(0.002)", &[]);
                timeout(Duration::from_micros(50), slow).await.ok();
            }
            5 => {
                // The client is gone while the transaction begins, or while it commits.
                drop(tx);
                timeout(Duration::from_micros(10), tenancy.tx(tenant)).await.ok();
            }
            6 => {
                timeout(Duration::from_micros(10), tx.commit()).await.ok();
            }
            7 => {
                // A store that sets the tenant for the whole session, against the rules.
                let poison = "select set_config('app.tenant_id', $1, false)";
                tx.client().execute(poison, &[&a.to_string()]).await.unwrap();
                tx.commit().await.unwrap();
            }
            _ => tx.commit().await.unwrap(),
        }
    }
    settle(&tenancy).await;
    assert_eq!(in_transaction(&database).await, 0);
}

// proves: C-C05
#[tokio::test]
async fn a_dropped_transaction_leaves_no_rows_and_no_open_transaction() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy_of(PoolSize::new(1));

    let tx = tenancy.tx(tenant).await.unwrap();
    tx.execute("update tenants set name = 'changed'", &[]).await.unwrap();
    drop(tx);

    let tx = tenancy.tx(tenant).await.unwrap();
    assert_eq!(tenant_get(&tx).await.unwrap().name, "a");
    tx.commit().await.unwrap();
    assert_eq!(in_transaction(&database).await, 0);
    assert_eq!(tenancy.pool_usage().open, 1, "the connection was kept");
}

#[tokio::test]
async fn a_failed_transaction_cannot_pass_for_committed() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy_of(PoolSize::new(1));
    let tx = tenancy.tx(tenant).await.unwrap();
    tx.execute("update tenants set name = 'changed'", &[]).await.unwrap();
    // A store that swallows an error.
    tx.execute("select 1 / 0", &[]).await.unwrap_err();

    assert!(matches!(tx.commit().await, Err(TenancyError::Internal(_))));
    assert_eq!(visible(&tenancy.tx(tenant).await.unwrap()).await, "a");
}

// proves: C-L06
#[tokio::test]
async fn an_exhausted_pool_answers_within_its_deadline() {
    let database = TestDatabase::new().await;
    let tenancy = database.tenancy_of(PoolSize::new(1));
    let held = tenancy.tx(TenantId::SYSTEM).await.unwrap();

    let begun = Instant::now();
    let error = tenancy.tx(TenantId::SYSTEM).await.unwrap_err();

    assert!(error.is_unavailable(), "{error:?}");
    assert!((1900..3000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    held.rollback().await.unwrap();
    tenancy.tx(TenantId::SYSTEM).await.unwrap().commit().await.unwrap();
}

// proves: C-L02, C-L10
#[tokio::test]
async fn a_connection_that_the_server_ended_is_replaced() {
    let database = TestDatabase::new().await;
    let tenancy = database.tenancy_of(PoolSize::new(1));
    let tx = tenancy.tx(TenantId::SYSTEM).await.unwrap();
    let pid: i32 = tx.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let end = "select pg_terminate_backend($1, 10000)";
    database.admin_client().await.query(end, &[&pid]).await.unwrap();

    assert!(tx.query("select 1", &[]).await.unwrap_err().is_unavailable());
    drop(tx);

    tenancy.tx(TenantId::SYSTEM).await.unwrap().commit().await.unwrap();
}

// proves: C-L04, C-L01
#[tokio::test]
async fn a_server_that_is_not_there_or_stays_silent_is_reported_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://coreci_app:x@{}/coreci", silent.local_addr().unwrap());
    let settings = tenancy::connections::Connections::from_urls(&url, &url, None, None).unwrap();
    let mut absent = tokio_postgres::Config::new();
    absent.host_path("/nonexistent").user("coreci_app");

    for config in [settings.app, absent] {
        let begun = Instant::now();
        let error = Tenancy::connect(&config, PoolSize::default()).tx(TenantId::SYSTEM).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
}

/// Forwards TCP to the test server's socket. Connections that exist when it is frozen stay silent for good, and so does
/// every new one until it thaws.
struct Network {
    config: tokio_postgres::Config,
    frozen: tokio::sync::watch::Sender<bool>,
}

impl Network {
    async fn new(database: &TestDatabase) -> Self {
        let direct = database.config("coreci_app");
        let tokio_postgres::config::Host::Unix(socket) = &direct.get_hosts()[0] else { panic!() };
        let socket = socket.join(".s.PGSQL.5432");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://coreci_app@{}/{}", listener.local_addr().unwrap(), database.name());
        let (frozen, state) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let (socket, mut state) = (socket.clone(), state.clone());
                tokio::spawn(async move {
                    let mut far = tokio::net::UnixStream::connect(socket).await.unwrap();
                    let frozen = async { state.wait_for(|frozen| *frozen).await.map(drop) };
                    tokio::select! {
                        biased;
                        _ = frozen => std::future::pending().await,
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        let settings = tenancy::connections::Connections::from_urls(&url, &url, None, None).unwrap();
        Self { config: settings.app, frozen }
    }
}

// proves: C-L04
#[tokio::test]
async fn after_a_silence_the_pool_recovers_at_once() {
    let database = TestDatabase::new().await;
    let network = Network::new(&database).await;
    let tenancy = Tenancy::connect(&network.config, PoolSize::new(4));
    let warm = (0..4).map(|_| tenancy.tx(TenantId::SYSTEM));
    for tx in futures_util::future::try_join_all(warm).await.unwrap() {
        tx.commit().await.unwrap();
    }
    assert_eq!(tenancy.pool_usage().idle, 4);

    network.frozen.send_replace(true);
    let begun = Instant::now();
    assert!(tenancy.tx(TenantId::SYSTEM).await.unwrap_err().is_unavailable());
    assert!(begun.elapsed() < Duration::from_secs(3));

    network.frozen.send_replace(false);
    let begun = Instant::now();
    tenancy.tx(TenantId::SYSTEM).await.unwrap().commit().await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(1500),
        "an old connection was tried: {:?}",
        begun.elapsed()
    );
}

// proves: C-L09, C-L10
#[tokio::test]
async fn a_statement_or_lock_that_takes_too_long_is_unavailable() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy();
    let tx = tenancy.tx(tenant).await.unwrap();
    let limits = "select current_setting('statement_timeout'), current_setting('lock_timeout'),
                         current_setting('idle_in_transaction_session_timeout')";
    let row = tx.query_one(limits, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), ("10s", "2s", "15s"));
    tx.client().batch_execute("set local statement_timeout = '20ms'").await.unwrap();
    assert!(tx.execute("select pg_sleep(5)", &[]).await.unwrap_err().is_unavailable());
    drop(tx);

    let admin = database.admin_client().await;
    admin.batch_execute("begin; lock table coreci.tenants in access exclusive mode").await.unwrap();
    let tx = tenancy.tx(tenant).await.unwrap();
    let begun = Instant::now();
    assert!(tenant_get(&tx).await.unwrap_err().is_unavailable());
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(tx);

    admin.batch_execute("rollback").await.unwrap();
    let tx = tenancy.tx(tenant).await.unwrap();
    tx.client().batch_execute("set idle_in_transaction_session_timeout = '20ms'").await.unwrap();
    while !tx.client().is_closed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(tx.commit().await.unwrap_err().is_unavailable());
    tenancy.tx(tenant).await.unwrap().commit().await.unwrap();
}

#[test]
fn a_transaction_that_outlives_its_runtime_closes_its_connection() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (database, tenancy) = runtime().block_on(async {
        let database = TestDatabase::new().await;
        let tenancy = database.tenancy_of(PoolSize::new(1));
        (database, tenancy)
    });
    let second = runtime();
    let tx = second.block_on(tenancy.tx(TenantId::SYSTEM)).unwrap();
    drop(second);
    drop(tx);

    assert_eq!(tenancy.pool_usage().open, 0);
    runtime().block_on(async {
        tenancy.tx(TenantId::SYSTEM).await.unwrap().commit().await.unwrap();
        assert_eq!(in_transaction(&database).await, 0);
    });
}

// proves: C-C16
#[tokio::test]
async fn text_is_stored_as_it_is_or_refused_as_invalid() {
    let database = TestDatabase::new().await;
    let tenancy = database.tenancy();
    let megabyte = "x".repeat(1 << 20);
    for (text, stored) in [
        ("'; drop table tenants; --", true),
        ("$1 \\ \" ' % _ {} \u{202e} \u{1f600}", true),
        ("a\0b", false),
        ("", false),
        (megabyte.as_str(), false),
    ] {
        let slug = format!("s{}", text.len());
        let created = tenancy::stores::tenant::tenant_create(&tenancy, &slug, text, "test").await;
        match created {
            Ok(tenant) if stored => assert_eq!(tenant.name, text),
            Err(TenancyError::Invalid(_)) if !stored => {}
            other => panic!("{:?}: {other:?}", &text[..text.len().min(20)]),
        }
        let bad_slug = tenancy::stores::tenant::tenant_create(&tenancy, text, "name", "test").await;
        assert!(matches!(bad_slug, Err(TenancyError::Invalid(_))), "{bad_slug:?}");
    }
}

// proves: C-C15
#[tokio::test]
async fn nothing_depends_on_the_session_of_the_transaction_before() {
    let database = TestDatabase::new().await;
    let tenant = database.create_tenant("a").await;
    let tenancy = database.tenancy_of(PoolSize::new(1));
    for _ in 0..3 {
        let tx = tenancy.tx(tenant).await.unwrap();
        assert_eq!(visible(&tx).await, "a");
        // What a transaction pooler does between two transactions of one client.
        tx.client().batch_execute("set search_path = pg_catalog; set statement_timeout = 1").await.unwrap();
        tx.commit().await.unwrap();
    }
}

// proves: C-C03
#[test]
fn no_code_sets_the_tenant_for_a_whole_session() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, found),
                path if path.extension().is_some_and(|end| end == "rs" || end == "sql") => found.push(path),
                _ => {}
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for member in std::fs::read_dir(&root).unwrap().flatten().map(|entry| entry.path()) {
        let source = if member.ends_with("sql") { member } else { member.join("src") };
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 20);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (index, line) in text.lines().enumerate() {
            let session_wide = line.contains("set_config(") && line.contains("false)")
                || line.to_lowercase().contains("set app.tenant_id")
                || line.to_lowercase().contains("set session app.tenant_id");
            assert!(!session_wide, "{}:{}: {line}", file.display(), index + 1);
        }
    }
}
