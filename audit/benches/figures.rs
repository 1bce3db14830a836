//! The audit log's figures as ratios measured in one run, against the embedded Postgres with fsync on:
//! `cargo bench -p audit`. Arguments: seconds per round (2), rounds (5, taking turns; the best one
//! of each kind counts), rows to verify (300000).
//!
//! Baseline: 64 connections, each writing one row per transaction (begin, lock the head, insert, update the head, commit),
//! one statement after the other as one would write it, and once more with all the pipelining that it allows.
#![expect(clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![expect(clippy::unwrap_used, reason = "a benchmark has nothing better to do with an error")]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use audit::canonical::Fields;
use audit::verdict::Verdict;
use audit::verify::verify_tenant;
use audit::{AuditConfig, PostgresAudit};
use futures_util::future::join_all;
use mcp_core::audit::{AuditEvent, AuditSink as _, Body, EventType, Link};
use mcp_core::id::{CorrelationId, EventId, InstanceId, TenantId};
use serde_json::json;
use tenancy::embedded::{EmbeddedConfig, EmbeddedServer, PgBinaries, SuperviseCommand, supervised_main};
use tenancy::migrate;
use tokio_postgres::{Client, Config, NoTls};
use ulid::Ulid;
use uuid::Uuid;

const WRITERS: usize = 64;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // This program is also the supervise command of its own server.
    if std::env::args_os().nth(1).as_deref() == Some("__supervised".as_ref()) {
        args.next();
        return supervised_main(args);
    }
    let numbers: Vec<u64> = args.filter_map(|arg| arg.to_str()?.parse().ok()).collect();
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let round = Duration::from_secs(number(0, 2));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(round, number(1, 5), number(2, 300_000)));
    ExitCode::SUCCESS
}

async fn run(round: Duration, rounds: u64, rows: u64) {
    let data_dir = std::env::temp_dir().join(format!("coreci-bench-{}", Ulid::generate()));
    let path = std::env::var_os("PATH");
    let binaries = PgBinaries::find(&data_dir, None, path.as_deref()).unwrap();
    let supervise =
        SuperviseCommand { program: "/proc/self/exe".into(), args: vec![OsString::from("__supervised")] };
    let config = EmbeddedConfig { data_dir: data_dir.clone(), binaries, supervise };
    let server = EmbeddedServer::start(config).await.unwrap();
    let connections = server.connections().clone();
    migrate::migrate(connections.migrator.as_ref().unwrap()).await.unwrap();
    let admin = open(connections.admin.as_ref().unwrap()).await;
    let settings = "select current_setting('fsync'), current_setting('synchronous_commit'), version()";
    let row = admin.query_one(settings, &[]).await.unwrap();
    let (fsync, commit, version): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
    println!(
        "{version}\nfsync {fsync}, synchronous_commit {commit}, {WRITERS} writers, {round:?} per round\n"
    );
    assert_eq!((fsync, commit), ("on", "on"));

    for tenants in [1, WRITERS].into_iter().filter(|_| rounds > 0) {
        let (mut plain, mut pipelined, mut group, mut calls) = (vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            plain.push(row_per_transaction(&connections.audit, tenants, round, false).await);
            pipelined.push(row_per_transaction(&connections.audit, tenants, round, true).await);
            group.push(group_commit(&connections.audit, tenants, round, Shape::Facts).await);
            calls.push(group_commit(&connections.audit, tenants, round, Shape::Calls).await);
        }
        let [plain, pipelined, group, calls] = [plain, pipelined, group, calls].map(best);
        println!("{WRITERS} writers on {tenants} tenant(s), rows per second:");
        println!("  row per transaction            {plain:>9.0}");
        println!("  row per transaction, pipelined {pipelined:>9.0}");
        println!(
            "  group commit                   {group:>9.0}   {:.1} x / {:.1} x",
            group / plain,
            group / pipelined
        );
        println!("  group commit, whole calls      {calls:>9.0}   (an intent and an outcome each)\n");
    }

    let tenant = fresh_tenant();
    fill(&connections.audit, tenant, rows).await;
    let client = open(&connections.audit).await;
    let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let busy = || [cpu_seconds("self"), cpu_seconds(&backend.to_string())];
    let (before, start) = (busy(), Instant::now());
    let verdict = verify_tenant(&client, tenant, |_| {}).await.unwrap();
    let (took, after) = (start.elapsed().as_secs_f64(), busy());
    let Verdict::Intact { rows, .. } = verdict else { panic!("{verdict}") };
    let rows = rows as f64;
    let [verifier, server_side] = [after[0] - before[0], after[1] - before[1]];
    println!("verify {rows} rows over one connection, fetch included:");
    println!("  rows per second                           {:>9.0}", rows / took);
    println!("  rows per CPU second of the verifier       {:>9.0}", rows / verifier);
    println!("  rows per CPU second, Postgres's included  {:>9.0}", rows / (verifier + server_side));

    server.stop().await;
    std::fs::remove_dir_all(data_dir).unwrap();
}

async fn row_per_transaction(config: &Config, tenants: usize, round: Duration, pipelined: bool) -> f64 {
    let tenants: Vec<TenantId> = (0..tenants).map(|_| fresh_tenant()).collect();
    let client = open(config).await;
    for tenant in &tenants {
        let sql = "insert into audit_heads values ($1, 0, 0, decode(repeat('00', 32), 'hex'))";
        client.execute(sql, &[&tenant.as_uuid()]).await.unwrap();
    }
    let clients = join_all((0..WRITERS).map(|_| open(config))).await;
    let pairs = clients.into_iter().enumerate().map(|(at, client)| (client, tenants[at % tenants.len()]));
    measure(round, pairs.map(|(client, tenant)| Baseline { client, tenant, pipelined })).await
}

struct Baseline {
    client: Client,
    tenant: TenantId,
    pipelined: bool,
}

impl Worker for Baseline {
    async fn work(self, go_on: &AtomicBool, done: &AtomicU64) {
        let client = self.client;
        let lock = client
            .prepare("select seq, at_us, hash from audit_heads where tenant_id = $1 for update")
            .await
            .unwrap();
        let insert = client
            .prepare(
                "insert into audit_log (tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash)
                 values ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .await
            .unwrap();
        let update = client
            .prepare("update audit_heads set seq = $2, at_us = $3, hash = $4 where tenant_id = $1")
            .await
            .unwrap();
        let tenant = self.tenant.as_uuid();
        while go_on.load(Ordering::Relaxed) {
            let event = event(self.tenant, Link::Fact);
            let body = serde_json::Value::Object(event.body.into_stored(str::to_owned)).to_string();
            let head = if self.pipelined {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&tenant];
                tokio::try_join!(client.batch_execute("begin"), client.query_one(&lock, &params)).unwrap().1
            } else {
                client.batch_execute("begin").await.unwrap();
                client.query_one(&lock, &[&tenant]).await.unwrap()
            };
            let seq: i64 = head.get::<_, i64>(0) + 1;
            let prev: [u8; 32] = head.get::<_, &[u8]>(2).try_into().unwrap();
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let at_us = since.as_micros() as i64;
            let event_type = event.event_type.as_str();
            let fields = Fields {
                tenant: self.tenant,
                seq: seq as u64,
                at_us: at_us as u64,
                event_type,
                event_id: event.id,
                body: body.as_bytes(),
            };
            let hash = fields.hash(&prev);
            let (prev, hash, body) = (prev.as_slice(), hash.as_slice(), body.as_bytes());
            let id = event.id.as_uuid();
            let row: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
                [&tenant, &seq, &at_us, &event_type, &id, &body, &prev, &hash];
            let head: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&tenant, &seq, &at_us, &hash];
            if self.pipelined {
                tokio::try_join!(
                    client.execute(&insert, &row),
                    client.execute(&update, &head),
                    client.batch_execute("commit")
                )
                .unwrap();
            } else {
                client.execute(&insert, &row).await.unwrap();
                client.execute(&update, &head).await.unwrap();
                client.batch_execute("commit").await.unwrap();
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Facts,
    Calls,
}

async fn group_commit(config: &Config, tenants: usize, round: Duration, shape: Shape) -> f64 {
    let tenants: Vec<TenantId> = (0..tenants).map(|_| fresh_tenant()).collect();
    let writer = writer(config);
    let workers = (0..WRITERS).map(|at| Grouped {
        writer: Arc::clone(&writer),
        tenant: tenants[at % tenants.len()],
        shape,
    });
    let rate = measure(round, workers).await;
    writer.shutdown(Duration::from_secs(10)).await.unwrap();
    rate
}

struct Grouped {
    writer: Arc<PostgresAudit>,
    tenant: TenantId,
    shape: Shape,
}

impl Worker for Grouped {
    async fn work(self, go_on: &AtomicBool, done: &AtomicU64) {
        let Self { writer, tenant, shape } = self;
        while go_on.load(Ordering::Relaxed) {
            if shape == Shape::Facts {
                writer.append(event(tenant, Link::Fact)).await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let correlation = CorrelationId::from_ulid(Ulid::generate());
            let instance = writer.instance();
            writer.append(event(tenant, Link::Intent { correlation, instance })).await.unwrap();
            writer.append(event(tenant, Link::Outcome { correlation })).await.unwrap();
            done.fetch_add(2, Ordering::Relaxed);
        }
    }
}

trait Worker: Send + 'static {
    fn work(self, go_on: &AtomicBool, done: &AtomicU64) -> impl Future<Output = ()> + Send;
}

/// Rows per second over a round, after half a second to warm up.
async fn measure<W: Worker>(round: Duration, workers: impl Iterator<Item = W>) -> f64 {
    let (go_on, done) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = workers
        .map(|worker| {
            let (go_on, done) = (Arc::clone(&go_on), Arc::clone(&done));
            tokio::spawn(async move { worker.work(&go_on, &done).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, start) = (done.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(round).await;
    let rate = (done.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    go_on.store(false, Ordering::Relaxed);
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    rate
}

async fn fill(config: &Config, tenant: TenantId, rows: u64) {
    let writer = writer(config);
    let tasks = (0..512).map(|_| {
        let writer = Arc::clone(&writer);
        tokio::spawn(async move {
            for _ in 0..rows / 1024 {
                let correlation = CorrelationId::from_ulid(Ulid::generate());
                let instance = writer.instance();
                writer.append(event(tenant, Link::Intent { correlation, instance })).await.unwrap();
                writer.append(event(tenant, Link::Outcome { correlation })).await.unwrap();
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    writer.shutdown(Duration::from_secs(10)).await.unwrap();
}

fn writer(config: &Config) -> Arc<PostgresAudit> {
    let instance = InstanceId::from_uuid(Uuid::new_v4());
    let mut c = AuditConfig::new([0; 32], instance);
    c.shards = std::env::args().nth(4).and_then(|a| a.parse().ok()).unwrap_or(2);
    Arc::new(PostgresAudit::start(c, config.clone()))
}

/// About as large as what the pipeline writes of a call.
fn event(tenant: TenantId, link: Link) -> AuditEvent {
    let body = Body::new()
        .public("userId", tenant)
        .public("role", "operator")
        .public("keyId", tenant)
        .public("tool", "ssh.run_whitelisted_command")
        .public("targetId", tenant)
        .public("args", json!({"command": "uptime"}))
        .public("argsDigest", "hmac-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let event_type = match link {
        Link::Fact => EventType::WriteRejected,
        Link::Intent { .. } | Link::Outcome { .. } => EventType::CapabilityInvoked,
    };
    AuditEvent { id: EventId::from_ulid(Ulid::generate()), tenant, event_type, body, link }
}

fn fresh_tenant() -> TenantId {
    TenantId::from_uuid(Uuid::new_v4())
}

async fn open(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    // On a busy machine, 64 connections that queue for one row wait longer than the role's limit.
    client.batch_execute("set lock_timeout = 0").await.unwrap();
    client
}

/// The processor time of a process so far; the kernel counts it in hundredths of a second.
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |at: usize| fields.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// The best round: other work on the machine only ever slows a round down.
fn best(rates: Vec<f64>) -> f64 {
    rates.into_iter().fold(0.0, f64::max)
}
