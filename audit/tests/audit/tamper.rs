//! A superuser for whom no trigger fires (C-K09) changes the log; the verifier says where.

use audit::export::{export_tenant, verify_export};
use audit::reader::Filter;
use audit::verdict::{Tampering, Verdict, Why};
use audit::verify::verify_all;
use mcp_core::audit::{AuditError, AuditSink as _};
use mcp_core::id::TenantId;

use crate::world::{World, call, fact, intent, tenant};

const ROWS: u32 = 6;

/// A chain of six rows after `sql` was run on it as a superuser without triggers; `$1` is the tenant.
async fn after(sql: &str) -> (World, TenantId, Verdict) {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, ROWS).await;
    assert!(world.verdict(tenant).await.is_intact());
    let sql = sql.replace("$1", &format!("'{tenant}'"));
    world.saboteur().await.batch_execute(&sql).await.unwrap();
    let verdict = world.verdict(tenant).await;
    (world, tenant, verdict)
}

async fn assert_first_bad(sql: &str, seq: u64, why: Why) {
    let (.., verdict) = after(sql).await;
    assert_eq!(verdict, Verdict::Tampered(Tampering { seq, why }), "{sql}");
    assert_eq!(verdict.exit_code(), 1);
}

// proves: C-K02, C-K09, AU-13
#[tokio::test]
async fn an_edited_row_is_named() {
    let row = "where tenant_id = $1 and seq = 3";
    for edit in [
        "body = overlay(body placing '8' from 11)",
        "event_type = 'auth.key_revoked'",
        "event_id = gen_random_uuid()",
        "at_us = at_us + 1",
        "hash = decode(repeat('ab', 32), 'hex')",
    ] {
        assert_first_bad(&format!("update audit_log set {edit} {row}"), 3, Why::Hash).await;
    }
    let link = "prev_hash = decode(repeat('ab', 32), 'hex')";
    assert_first_bad(&format!("update audit_log set {link} {row}"), 3, Why::Link).await;
}

// proves: C-K03, C-K09
#[tokio::test]
async fn a_deleted_row_is_a_gap() {
    assert_first_bad("delete from audit_log where tenant_id = $1 and seq = 3", 3, Why::Gap).await;
    assert_first_bad("delete from audit_log where tenant_id = $1 and seq = 1", 1, Why::Gap).await;
    let closed_up = "delete from audit_log where tenant_id = $1 and seq = 3;
                     update audit_log set seq = -seq + 1 where tenant_id = $1 and seq > 3;
                     update audit_log set seq = -seq where tenant_id = $1 and seq < 0";
    let unchecked = "alter table audit_log drop constraint audit_log_seq_check;";
    assert_first_bad(&format!("{unchecked} {closed_up}"), 3, Why::Link).await;
}

// proves: C-K04, C-K09
#[tokio::test]
async fn swapped_rows_are_named() {
    let swap = "update audit_log set seq = 100 where tenant_id = $1 and seq = 3;
                update audit_log set seq = 3 where tenant_id = $1 and seq = 4;
                update audit_log set seq = 4 where tenant_id = $1 and seq = 100";
    assert_first_bad(swap, 3, Why::Link).await;
}

// proves: C-K08
#[tokio::test]
async fn a_cut_tail_is_found_by_the_head() {
    let (.., verdict) = after("delete from audit_log where tenant_id = $1 and seq > 4").await;
    assert_eq!(verdict, Verdict::Truncated { expected: 6, found: 4 });
    assert_eq!(verdict.exit_code(), 2);

    let (world, tenant, verdict) = after("delete from audit_log where tenant_id = $1").await;
    assert_eq!(verdict, Verdict::Truncated { expected: 6, found: 0 });
    let all = verify_all(&world.auditor().await, |_, _| {}).await.unwrap();
    assert_eq!(all, [(tenant, verdict)]);
}

#[tokio::test]
async fn a_head_that_does_not_fit_its_rows_is_found() {
    let rewind = "update audit_heads h set seq = l.seq, hash = l.hash from audit_log l
                  where l.tenant_id = $1 and l.seq = 4";
    assert_first_bad(rewind, 5, Why::BeyondHead).await;
    let (world, tenant, verdict) = after("delete from audit_heads where tenant_id = $1").await;
    assert_eq!(verdict, Verdict::Tampered(Tampering { seq: 1, why: Why::BeyondHead }));
    let all = verify_all(&world.auditor().await, |_, _| {}).await.unwrap();
    assert_eq!(all, [(tenant, verdict)]);
    let other = "update audit_heads set hash = decode(repeat('ab', 32), 'hex') where tenant_id = $1";
    assert_first_bad(other, 6, Why::OtherHead).await;
}

/// This is the limit that SECURITY and the README speak of, kept here so that nobody believes more.
#[tokio::test]
async fn a_tail_cut_together_with_the_head_passes_but_not_against_an_export() {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, ROWS).await;
    let mut export = Vec::new();
    export_tenant(&world.auditor().await, tenant, &mut export, |_| {}).await.unwrap();

    let cut = format!(
        "delete from audit_log where tenant_id = '{tenant}' and seq > 4;
         update audit_heads h set seq = l.seq, hash = l.hash from audit_log l where l.seq = 4"
    );
    world.saboteur().await.batch_execute(&cut).await.unwrap();

    let Verdict::Intact { rows: 4, .. } = world.verdict(tenant).await else { panic!("expected 4 rows") };
    let [(_, Verdict::Intact { rows: 6, .. })] = verify_export(export.as_slice()).unwrap()[..] else {
        panic!("expected 6 rows")
    };
}

// proves: C-L05
#[tokio::test]
async fn a_writer_does_not_go_on_from_a_history_that_lost_its_end() {
    let world = World::new().await;
    let (victim, other) = (tenant(), tenant());
    let writer = world.writer();
    for number in 0..3 {
        writer.append(fact(victim, number)).await.unwrap();
    }
    let cut = "delete from audit_log where seq = 3;
               update audit_heads h set seq = l.seq, hash = l.hash from audit_log l where l.seq = 2";
    world.saboteur().await.batch_execute(cut).await.unwrap();

    let refused = writer.append(intent(victim, call(), writer.instance())).await;
    assert_eq!(refused, Err(AuditError::Unavailable));
    assert!(writer.health().last_error.unwrap().contains("ends before row 3"));
    writer.append(fact(other, 1)).await.unwrap();
    let rows =
        audit::reader::page(&world.auditor().await, victim, 0, 9, Some(&Filter::default())).await.unwrap();
    assert_eq!(rows.len(), 2);
}
