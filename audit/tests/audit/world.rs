//! What the tests share: a database, writers, events, and waiting for something with a deadline.

use std::time::{Duration, Instant};

use audit::chain::Row;
use audit::reader;
use audit::verdict::Verdict;
use audit::verify::verify_tenant;
use audit::{AuditConfig, PostgresAudit};
use mcp_core::audit::{AuditEvent, AuditSink as _, Body, EventType, Link, Receipt};
use mcp_core::id::{CorrelationId, EventId, InstanceId, TenantId};
use serde_json::{Value, json};
use tenancy::testing::TestDatabase;
use tokio_postgres::Client;
use ulid::Ulid;
use uuid::Uuid;

/// One database, any number of writers.
pub(crate) struct World {
    pub(crate) database: TestDatabase,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self { database: TestDatabase::new().await }
    }

    /// A writer of a process of its own. Its callers are patient: a slow machine is no failure.
    pub(crate) fn writer(&self) -> PostgresAudit {
        self.writer_with(|config| config.deadline = Duration::from_secs(30))
    }

    /// A writer whose callers give up soon, for appends that are expected to fail.
    pub(crate) fn hasty_writer(&self) -> PostgresAudit {
        self.writer_with(|config| config.deadline = Duration::from_millis(300))
    }

    pub(crate) fn writer_with(&self, adjust: impl FnOnce(&mut AuditConfig)) -> PostgresAudit {
        let mut config = AuditConfig::new([7; 32], InstanceId::from_uuid(Uuid::new_v4()));
        adjust(&mut config);
        PostgresAudit::start(config, self.database.connections().audit)
    }

    /// A session that reads as the auditor does.
    pub(crate) async fn auditor(&self) -> Client {
        self.database.connect_as("coreci_audit").await
    }

    /// A superuser's session for which no trigger fires (C-K09).
    pub(crate) async fn saboteur(&self) -> Client {
        let client = self.database.admin_client().await;
        client
            .batch_execute("set session_replication_role = replica; set search_path = coreci")
            .await
            .unwrap();
        client
    }

    pub(crate) async fn rows(&self, tenant: TenantId) -> Vec<Row> {
        reader::page(&self.auditor().await, tenant, 0, 100_000, None).await.unwrap()
    }

    pub(crate) async fn verdict(&self, tenant: TenantId) -> Verdict {
        verify_tenant(&self.auditor().await, tenant, |_| {}).await.unwrap()
    }

    /// A chain of that many facts.
    pub(crate) async fn chain_of(&self, tenant: TenantId, rows: u32) {
        let writer = self.writer();
        for number in 0..rows {
            writer.append(fact(tenant, number)).await.unwrap();
        }
        writer.shutdown(Duration::from_secs(5)).await.unwrap();
    }

    /// The phases and results of one call, in order.
    pub(crate) async fn story(&self, tenant: TenantId, call: CorrelationId) -> Vec<String> {
        let filter = reader::Filter { correlation: Some(call), ..reader::Filter::default() };
        let rows = reader::page(&self.auditor().await, tenant, 0, 1000, Some(&filter)).await.unwrap();
        rows.iter()
            .map(|row| {
                let body = body_of(row);
                let word = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
                format!("{} {}", word("phase"), word("result")).trim().to_owned()
            })
            .collect()
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::from_uuid(Uuid::new_v4())
}

pub(crate) fn call() -> CorrelationId {
    CorrelationId::from_ulid(Ulid::generate())
}

pub(crate) fn fact(tenant: TenantId, number: u32) -> AuditEvent {
    event(tenant, EventType::KeyCreated, Body::new().public("number", number), Link::Fact)
}

pub(crate) fn intent(tenant: TenantId, correlation: CorrelationId, instance: InstanceId) -> AuditEvent {
    let body = Body::new()
        .public("tool", "ssh.run")
        .public("args", json!({"command": "uptime"}))
        .public("userId", "u");
    event(tenant, EventType::CapabilityInvoked, body, Link::Intent { correlation, instance })
}

pub(crate) fn outcome(tenant: TenantId, correlation: CorrelationId) -> AuditEvent {
    let body = Body::new().public("tool", "ssh.run").public("result", "success");
    event(tenant, EventType::CapabilityInvoked, body, Link::Outcome { correlation })
}

pub(crate) fn event(tenant: TenantId, event_type: EventType, body: Body, link: Link) -> AuditEvent {
    AuditEvent { id: EventId::from_ulid(Ulid::generate()), tenant, event_type, body, link }
}

pub(crate) fn body_of(row: &Row) -> Value {
    serde_json::from_slice(&row.body).unwrap()
}

/// Whether the row that a receipt names is there, with the same hash.
pub(crate) fn is_kept(rows: &[Row], receipt: &Receipt) -> bool {
    rows.iter().any(|row| row.seq == receipt.seq && row.hash == receipt.hash && row.tenant == receipt.tenant)
}

/// Asks again and again until the answer is yes, twenty seconds at the most.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
