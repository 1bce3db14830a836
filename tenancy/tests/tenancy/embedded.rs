//! The embedded server, with the real programs of this machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenancy::embedded::{
    EmbeddedConfig, EmbeddedError, EmbeddedServer, EmbeddedStatus, PgBinaries, SuperviseCommand,
};
use tenancy::{PoolSize, Tenancy, migrate, preflight};
use tokio_postgres::{Client, Config, NoTls};
use ulid::Ulid;

/// A directory of this test, removed afterwards, and a copy of the example that serves as supervise command.
struct Place {
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("coreci-embedded-{}", Ulid::generate()));
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let place = Self { root };
        let built = std::env::current_exe().unwrap();
        let built = built.parent().unwrap().parent().unwrap().join("examples/embedded");
        assert!(built.exists(), "build it first: cargo build -p tenancy --example embedded");
        // The build directory may be closed to the server's user; this copy is not.
        fs::copy(built, place.program()).unwrap();
        place
    }

    fn program(&self) -> PathBuf {
        self.root.join("embedded")
    }

    fn data_dir(&self) -> PathBuf {
        self.root.join("state")
    }

    fn config(&self) -> EmbeddedConfig {
        self.config_at(self.data_dir())
    }

    fn config_at(&self, data_dir: PathBuf) -> EmbeddedConfig {
        let binaries = binaries(&data_dir).unwrap();
        let supervise = SuperviseCommand { program: self.program(), args: vec!["__supervised".into()] };
        EmbeddedConfig { data_dir, binaries, supervise }
    }

    async fn start(&self) -> EmbeddedServer {
        let server = EmbeddedServer::start(self.config()).await.unwrap();
        migrate::migrate(server.connections().migrator.as_ref().unwrap()).await.unwrap();
        server
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn binaries(data_dir: &Path) -> Result<PgBinaries, EmbeddedError> {
    PgBinaries::find(data_dir, None, std::env::var_os("PATH").as_deref())
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn connect_patiently(config: &Config) -> Client {
    for _ in 0..600 {
        if let Ok(client) = connect(config).await {
            return client;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server did not come back");
}

async fn ready_pid(server: &EmbeddedServer) -> i32 {
    let ready = |status: &EmbeddedStatus| matches!(status, EmbeddedStatus::Ready { .. });
    match &*server.status().wait_for(ready).await.unwrap() {
        EmbeddedStatus::Ready { pid } => *pid,
        other => panic!("{other:?}"),
    }
}

fn kill(pid: impl std::fmt::Display) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

fn is_alive(pid: i32) -> bool {
    // A zombie has ended; its parent only has not looked yet.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_fresh_server_serves_and_keeps_its_rows_over_a_restart() {
    let place = Place::new();
    let server = place.start().await;
    preflight::check(server.connections()).await.unwrap();
    let tenancy = Tenancy::connect(&server.connections().app, PoolSize::default());
    let tenant = tenancy::stores::tenant::tenant_create(&tenancy, "acme", "Acme", "test").await.unwrap();
    let pid = ready_pid(&server).await;
    server.stop().await;
    assert!(!is_alive(pid));
    assert!(tenancy.lookup().tenants().await.unwrap_err().is_unavailable());

    let server = place.start().await;
    // The same pool finds the server again: its socket is where it was.
    assert_eq!(tenancy.lookup().tenants().await.unwrap(), [tenant.tenant_id]);
    server.stop().await;
}

#[tokio::test]
async fn no_role_gets_in_without_its_password() {
    let place = Place::new();
    let server = place.start().await;
    let connections = server.connections().clone();
    let all = [
        connections.admin.clone().unwrap(),
        connections.migrator.unwrap(),
        connections.app,
        connections.audit,
    ];
    for config in all {
        connect(&config).await.unwrap();
        let mut wrong = config.clone();
        wrong.password("wrong");
        let refused = connect(&wrong).await.err().unwrap();
        assert_eq!(refused.code().unwrap().code(), "28P01", "{:?}", config.get_user());
        let mut absent = Config::new();
        absent.host_path(place.data_dir().join("run")).user(config.get_user().unwrap()).dbname("coreci");
        assert!(connect(&absent).await.is_err());
    }
    let settings = "select current_setting('listen_addresses'), current_setting('fsync'),
                           current_setting('password_encryption')";
    let admin = connect(connections.admin.as_ref().unwrap()).await.unwrap();
    let row = admin.query_one(settings, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), ("", "on", "scram-sha-256"));
    server.stop().await;

    let mode = |name: &str| fs::metadata(place.data_dir().join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("postgres.json"), mode("run"), mode("data")), (0o600, 0o700, 0o700));
    assert!(!place.data_dir().join("initdb.password").exists());
    let log = fs::read_to_string(place.data_dir().join("postgres.log")).unwrap();
    let passwords = fs::read_to_string(place.data_dir().join("postgres.json")).unwrap();
    let passwords: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&passwords).unwrap();
    assert_eq!(passwords.len(), 4);
    assert!(passwords.values().all(|secret| !log.contains(secret.as_str().unwrap())));
}

// proves: C-L02, C-L01
#[tokio::test]
async fn five_kills_of_the_server_lose_no_committed_row() {
    let place = Place::new();
    let server = place.start().await;
    let tenancy = Tenancy::connect(&server.connections().app, PoolSize::default());
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let pid = ready_pid(&server).await;
        let slug = format!("t-{round}");
        let tenant = tenancy::stores::tenant::tenant_create(&tenancy, &slug, "x", "test").await.unwrap();
        acknowledged.push(tenant.tenant_id);
        kill(pid);
        let mut status = server.status();
        let other = |now: &EmbeddedStatus| matches!(now, EmbeddedStatus::Ready { pid: now } if *now != pid);
        tokio::time::timeout(Duration::from_secs(60), status.wait_for(other)).await.unwrap().unwrap();
    }
    let mut found = tenancy.lookup().tenants().await.unwrap();
    found.sort();
    acknowledged.sort();
    assert_eq!(found, acknowledged);
    server.stop().await;
}

// proves: C-L02
#[tokio::test]
async fn five_kills_of_the_parent_take_the_server_along_and_lose_no_committed_row() {
    let place = Place::new();
    for round in 0..5_i64 {
        let mut parent = spawn_parent(&place);
        let connections = EmbeddedServer::attach(&place.data_dir()).unwrap().expect("it is running");
        let admin = connect(connections.admin.as_ref().unwrap()).await.unwrap();
        admin.batch_execute("create table if not exists public.kept (round bigint)").await.unwrap();
        let count = admin.query_one("select count(*) from public.kept", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), round);
        admin.execute("insert into public.kept values ($1)", &[&round]).await.unwrap();
        let pid = postmaster_pid(&place);

        kill(parent.id());
        parent.wait().unwrap();
        for _ in 0..200 {
            if !is_alive(pid) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert!(!is_alive(pid), "Postgres outlived its parent");
        assert!(EmbeddedServer::attach(&place.data_dir()).unwrap().is_none());
    }
}

fn spawn_parent(place: &Place) -> Child {
    let mut command = Command::new(place.program());
    command.arg(place.data_dir()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    parent
}

fn postmaster_pid(place: &Place) -> i32 {
    let text = fs::read_to_string(place.data_dir().join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_half_made_cluster_is_thrown_away() {
    let place = Place::new();
    // What a kill during initdb leaves behind.
    fs::create_dir_all(place.data_dir().join("data.new/base")).unwrap();
    fs::set_permissions(place.data_dir(), fs::Permissions::from_mode(0o711)).unwrap();
    fs::write(place.data_dir().join("data.new/PG_VERSION"), "15").unwrap();
    fs::write(place.data_dir().join("initdb.password"), "half").unwrap();

    let server = place.start().await;

    preflight::check(server.connections()).await.unwrap();
    server.stop().await;
    assert!(!place.data_dir().join("data.new").exists());
    assert!(!place.data_dir().join("initdb.password").exists());
}

#[tokio::test]
async fn a_running_server_is_attached_to_and_not_started_twice() {
    let place = Place::new();
    assert!(EmbeddedServer::attach(&place.data_dir()).unwrap().is_none());
    let server = place.start().await;

    let attached = EmbeddedServer::attach(&place.data_dir()).unwrap().unwrap();
    preflight::check(&attached).await.unwrap();
    let error = EmbeddedServer::start(place.config()).await.unwrap_err();

    assert!(matches!(error, EmbeddedError::AlreadyRunning { .. }), "{error}");
    preflight::check(server.connections()).await.unwrap();
    server.stop().await;
    assert!(EmbeddedServer::attach(&place.data_dir()).unwrap().is_none());
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_uses_a_short_private_directory() {
    let place = Place::new();
    let deep = place.root.join("d".repeat(120));

    let server = EmbeddedServer::start(place.config_at(deep.clone())).await.unwrap();

    connect(&server.connections().app).await.unwrap();
    let attached = EmbeddedServer::attach(&deep).unwrap().unwrap();
    connect(&attached.app).await.unwrap();
    let tokio_postgres::config::Host::Unix(socket_dir) = &attached.app.get_hosts()[0] else { panic!() };
    assert_eq!(fs::metadata(socket_dir).unwrap().mode() & 0o777, 0o700);
    server.stop().await;
    assert!(!socket_dir.exists(), "nothing stays in the shared directory");
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_made_is_reported_and_nothing_is_left() {
    let place = Place::new();
    fs::write(place.root.join("file"), "in the way").unwrap();

    let error = EmbeddedServer::start(place.config_at(place.root.join("file/state"))).await.unwrap_err();

    assert!(matches!(error, EmbeddedError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("choose another one"), "{error}");
}

#[tokio::test]
async fn root_is_told_which_directory_stops_the_servers_user() {
    let place = Place::new();
    let closed = place.root.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if fs::metadata(&closed).unwrap().uid() != 0 {
        return; // An ordinary user runs the server as itself.
    }

    let error = EmbeddedServer::start(place.config_at(closed.join("state"))).await.unwrap_err();

    assert!(matches!(&error, EmbeddedError::Unreachable { path, .. } if *path == closed), "{error}");
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
}

#[test]
fn data_of_another_major_version_is_refused_with_the_way_out() {
    let place = Place::new();
    fs::create_dir_all(place.data_dir().join("data")).unwrap();
    fs::write(place.data_dir().join("data/PG_VERSION"), "12\n").unwrap();

    let error = binaries(&place.data_dir()).unwrap_err();

    assert!(matches!(error, EmbeddedError::MajorMismatch { data: 12, .. }), "{error}");
    assert!(error.to_string().contains("control-plane backup"), "{error}");
}

#[test]
fn a_machine_without_postgres_is_told_what_to_install() {
    let empty = PgBinaries::find(Path::new("/nonexistent"), None, None);
    // Where the distribution's own directory holds a server it is found without PATH.
    let Err(error) = empty else { return };
    assert!(error.to_string().contains("apt install postgresql"), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_at_once() {
    let place = Place::new();
    place.start().await.stop().await;
    let settings = place.data_dir().join("data/postgresql.conf");
    fs::write(&settings, "no_such_setting = 1\n").unwrap();

    let begun = std::time::Instant::now();
    let error = EmbeddedServer::start(place.config()).await.unwrap_err();

    assert!(error.to_string().contains("no_such_setting"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_administrator_who_is_no_superuser_can_set_a_database_up() {
    let place = Place::new();
    let server = place.start().await;
    let admin = server.connections().admin.clone().unwrap();
    let client = connect(&admin).await.unwrap();
    client.batch_execute("create role cloud_admin login createrole password 'cloud'").await.unwrap();
    client.batch_execute("create database managed owner cloud_admin").await.unwrap();
    let major: i32 = client
        .query_one("select current_setting('server_version_num')::int / 10000", &[])
        .await
        .unwrap()
        .get(0);
    if major >= 16 {
        // Since 16 a role belongs to whoever created it; here the embedded server's superuser did.
        let grant = "grant coreci_migrator, coreci_app, coreci_audit, coreci_lookup to cloud_admin
                     with admin true, set false, inherit false";
        client.batch_execute(grant).await.unwrap();
    }
    let managed = |config: &Config| {
        let mut config = config.clone();
        config.dbname("managed");
        config
    };
    let mut cloud = managed(&admin);
    cloud.user("cloud_admin").password("cloud");
    let passwords =
        tenancy::migrate::RolePasswords { migrator: "m".into(), app: "a".into(), audit: "b".into() };

    for _ in 0..2 {
        migrate::bootstrap_roles(&cloud, &passwords).await.unwrap();
    }

    let mut connections = server.connections().clone();
    let mut migrator = managed(connections.migrator.as_ref().unwrap());
    migrate::migrate(migrator.password("m")).await.unwrap();
    connections.app = managed(&connections.app).password("a").clone();
    connections.audit = managed(&connections.audit).password("b").clone();
    preflight::check(&connections).await.unwrap();
    // It joined the migrator for a moment only.
    let uses = "select pg_has_role('cloud_admin', 'coreci_migrator', 'usage')";
    assert!(!client.query_one(uses, &[]).await.unwrap().get::<_, bool>(0));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_while_the_server_is_restarting_is_final() {
    let place = Place::new();
    let server = place.start().await;
    let app = server.connections().app.clone();
    kill(ready_pid(&server).await);
    let restarting = |now: &EmbeddedStatus| matches!(now, EmbeddedStatus::Restarting { .. });
    server.status().wait_for(restarting).await.unwrap();

    server.stop().await;

    assert!(connect(&app).await.is_err());
    let server = place.start().await;
    connect_patiently(&app).await;
    server.stop().await;
}
