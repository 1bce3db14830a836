//! The server that all test processes of one user share.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio_postgres::{Client, Config};

use super::keeper;
use crate::embedded::{PgBinaries, PidFile, ServerUser};
use crate::migrate::{RolePasswords, bootstrap_roles, digest_of_sql, migrate};
use crate::session;

const SUPERUSER: &str = "coreci_admin";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Durability is off: nothing here is worth keeping. The rest makes hundreds of small databases cheap.
const SETTINGS: &str = "
listen_addresses = ''
port = 5432
max_connections = 400
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 512MB
checkpoint_timeout = 30min
shared_buffers = 64MB
jit = off
timezone = 'UTC'
";

/// A running server with templates. The lease keeps it alive for as long as this process lives.
pub(super) struct Cluster {
    socket_dir: PathBuf,
    pub(super) migrated_template: String,
    pub(super) empty_template: String,
    _lease: File,
}

impl Cluster {
    /// The one server of this process. Blocks while another process starts or ends it.
    pub(super) fn get() -> &'static Self {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::acquire)
    }

    pub(super) fn config(&self, user: &str, database: &str) -> Config {
        config(&self.socket_dir, user, database)
    }

    pub(super) async fn admin(&self, database: &str) -> Client {
        open(&self.config(SUPERUSER, database)).await
    }

    fn acquire() -> Self {
        // The tests' configuration is the machine they run on; no configuration module is involved.
        let path = std::env::var_os("PATH");
        let binaries = PgBinaries::find(Path::new("/nonexistent"), None, path.as_deref())
            .unwrap_or_else(|error| panic!("tests need Postgres: {error}"));
        let user = ServerUser::choose().expect("a user to run Postgres as");
        loop {
            let dir = directory(binaries.major(), user.as_ref());
            // The keeper may move the directory away at any moment before the lease is ours: then begin again.
            let Some(start) = lock_file(&dir.join("start"), FlockOperation::LockExclusive) else { continue };
            let Some(lease) = lock_file(&dir.join("lease"), FlockOperation::LockShared) else { continue };
            lease.set_modified(SystemTime::now()).expect("touch the lease");
            keeper::ensure(&dir);
            let socket_dir = dir.join("run");
            ensure_running(&dir, &socket_dir, &binaries, user.as_ref());
            let hash: String = digest_of_sql().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let cluster = Self {
                socket_dir,
                migrated_template: format!("template_{hash}"),
                empty_template: format!("template_{hash}_empty"),
                _lease: lease,
            };
            block_on(cluster.ensure_templates());
            drop(start);
            return cluster;
        }
    }

    async fn ensure_templates(&self) {
        let admin = self.admin("postgres").await;
        for (name, migrated) in [(&self.empty_template, false), (&self.migrated_template, true)] {
            let exists = "select from pg_database where datname = $1";
            if admin.query_opt(exists, &[name]).await.expect("look for a template").is_some() {
                continue;
            }
            // Built under another name: a template that a killed process left half-made is never used.
            let building = format!("{name}_new");
            run(&admin, &format!("drop database if exists {building} with (force)")).await;
            run(&admin, &format!("create database {building}")).await;
            let passwords =
                RolePasswords { migrator: "test".into(), app: "test".into(), audit: "test".into() };
            bootstrap_roles(&self.config(SUPERUSER, &building), &passwords).await.expect("create the roles");
            if migrated {
                migrate(&self.config("coreci_migrator", &building)).await.expect("migrate the template");
            }
            run(&admin, &format!("alter database {building} with allow_connections false")).await;
            let left = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1";
            admin.query(left, &[&building]).await.expect("end the template's sessions");
            run(&admin, &format!("alter database {building} rename to {name}")).await;
        }
    }
}

/// Runs `future` on a thread and runtime of its own, so that it works inside another runtime and inside `drop`.
pub(super) fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("build a runtime").block_on(future)
        });
        thread.join().expect("the thread ends without a panic")
    })
}

pub(super) async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

pub(super) async fn open(config: &Config) -> Client {
    session::open(config, CONNECT_TIMEOUT)
        .await
        .unwrap_or_else(|error| panic!("connect to a test database: {error:?}"))
}

fn config(socket_dir: &Path, user: &str, database: &str) -> Config {
    let mut config = Config::new();
    config.host_path(socket_dir).port(5432).user(user).dbname(database).application_name("coreci-test");
    config
}

/// `TMPDIR/coreci-test-pg-UID-MAJOR`, made and ours.
fn directory(major: u32, user: Option<&ServerUser>) -> PathBuf {
    let temp = std::env::temp_dir();
    // A socket's path has to be short.
    let root = if temp.as_os_str().len() > 50 { Path::new("/tmp") } else { &temp };
    let uid = rustix::process::geteuid().as_raw();
    let dir = root.join(format!("coreci-test-pg-{uid}-{major}"));
    let mode = if user.is_some() { 0o711 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            panic!("{}: {error}", dir.display())
        }
        _ => {}
    }
    if let Ok(metadata) = fs::symlink_metadata(&dir) {
        let ours = metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o066 == 0;
        assert!(ours, "{} is somebody else's: remove it", dir.display());
    }
    dir
}

/// Opens and locks a file; `None` when it was moved away meanwhile.
fn lock_file(path: &Path, operation: FlockOperation) -> Option<File> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).ok()?;
    loop {
        match flock(&file, operation) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(error) => panic!("lock {}: {error}", path.display()),
        }
    }
    let (here, there) = (file.metadata().ok()?, fs::metadata(path).ok()?);
    (here.ino() == there.ino() && here.dev() == there.dev()).then_some(file)
}

/// Called under the start lock.
fn ensure_running(dir: &Path, socket_dir: &Path, binaries: &PgBinaries, user: Option<&ServerUser>) {
    let data = dir.join("data");
    if PidFile::read(&data).is_some_and(|file| file.ready && file.is_alive() && file.answers()) {
        return;
    }
    // A killed run without fsync may have left anything at all: start afresh.
    let stop = ["stop", "--mode", "immediate", "--silent", "--pgdata"];
    let _ = program(binaries, "pg_ctl", user).args(stop).arg(&data).status();
    for path in [&data, socket_dir] {
        let _ = fs::remove_dir_all(path);
        DirBuilder::new().mode(0o700).create(path).expect("create a directory of the test server");
        crate::embedded::give_to(path, user).expect("give a directory to the server's user");
    }
    let mut initdb = program(binaries, "initdb", user);
    initdb.args(["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]);
    must(initdb.args(["--no-instructions", "--no-sync", "--pgdata"]).arg(&data));
    let mut settings =
        OpenOptions::new().append(true).open(data.join("postgresql.conf")).expect("open settings");
    writeln!(settings, "{SETTINGS}unix_socket_directories = '{}'", socket_dir.display())
        .expect("write settings");
    let mut start = program(binaries, "pg_ctl", user);
    start.args(["start", "--wait", "--timeout", "60", "--silent", "--log"]).arg(data.join("server.log"));
    must(start.arg("--pgdata").arg(&data));
}

fn program(binaries: &PgBinaries, name: &str, user: Option<&ServerUser>) -> Command {
    let mut command = Command::new(binaries.program(name));
    // The server must not hold the test's pipes open, or the test runner waits for it.
    command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    crate::embedded::run_as(&mut command, user);
    command
}

fn must(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?} failed: {status}");
}
