//! A chain without a database: append, export, tamper, verify. `cargo run -p audit --example chain`.
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use audit::export::{read_rows, verify_export, write_row};
use audit::memory::MemoryAudit;
use mcp_core::audit::{AuditEvent, AuditSink as _, Body, EventType, Link};
use mcp_core::id::{EventId, TenantId};
use ulid::Ulid;
use uuid::Uuid;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let log = MemoryAudit::new([7; 32]);
    let tenant = TenantId::from_uuid(Uuid::from_u128(1));
    for name in ["alice", "bob", "carol"] {
        let body = Body::new().public("role", "operator").sensitive("name", name);
        let (id, event_type) = (EventId::from_ulid(Ulid::generate()), EventType::KeyCreated);
        let receipt = log.append(AuditEvent { id, tenant, event_type, body, link: Link::Fact }).await?;
        println!("receipt {receipt}");
    }

    let mut export = Vec::new();
    for row in log.rows() {
        write_row(&mut export, &row)?;
    }
    print!("\n{}", String::from_utf8_lossy(&export));
    for (tenant, verdict) in verify_export(export.as_slice())? {
        println!("\n{tenant}: {verdict} (exit {})", verdict.exit_code());
    }

    // Bob becomes an admin, in the record only.
    let mut rows = read_rows(export.as_slice()).collect::<Result<Vec<_>, _>>()?;
    let body = String::from_utf8_lossy(&rows[1].body).replace("operator", "admin");
    rows[1].body = body.into_bytes();
    let mut tampered = Vec::new();
    for row in &rows {
        write_row(&mut tampered, row)?;
    }
    for (tenant, verdict) in verify_export(tampered.as_slice())? {
        println!("{tenant}: {verdict} (exit {})", verdict.exit_code());
    }
    Ok(())
}
