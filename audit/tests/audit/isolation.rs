//! Who sees what.

use audit::reader;
use audit::verdict::Verdict;
use audit::verify::verify_tenant;
use tokio_postgres::error::SqlState;

use crate::world::{World, tenant};

// proves: AU-03
#[tokio::test]
async fn the_audit_role_reads_the_audit_tables_and_nothing_else() {
    let world = World::new().await;
    let sql = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'coreci' and c.relkind in ('r', 'p', 'v') order by 1";
    let tables = world.database.admin_client().await.query(sql, &[]).await.unwrap();
    assert!(tables.len() > 5);

    let auditor = world.auditor().await;
    for table in tables {
        let table: String = table.get(0);
        let read = auditor.batch_execute(&format!("select from coreci.{table}")).await;
        // The version of the schema is for everyone who has to refuse an unfit one.
        let readable = ["audit_heads", "audit_log", "audit_open", "audit_outbox", "schema_migrations"];
        if readable.contains(&table.as_str()) {
            read.unwrap();
        } else {
            let error = read.expect_err(&table);
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{table}");
        }
    }
}

// proves: AU-03
#[tokio::test]
async fn a_tenant_sees_its_own_chain_and_no_other() {
    let world = World::new().await;
    let (acme, globex) = (tenant(), tenant());
    world.chain_of(acme, 3).await;
    world.chain_of(globex, 2).await;

    let tx = world.database.tenancy().tx(acme).await.unwrap();
    let own = reader::page(tx.client(), acme, 0, 10, None).await.unwrap();
    let foreign = reader::page(tx.client(), globex, 0, 10, None).await.unwrap();
    let heads = reader::heads(tx.client()).await.unwrap();
    let verdict = verify_tenant(tx.client(), acme, |_| {}).await.unwrap();

    assert_eq!((own.len(), foreign.len()), (3, 0));
    assert_eq!(heads.iter().map(|(tenant, head)| (*tenant, head.seq)).collect::<Vec<_>>(), [(acme, 3)]);
    assert!(matches!(verdict, Verdict::Intact { rows: 3, .. }));
    let all = tx.query("select from audit_log", &[]).await.unwrap();
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn pages_follow_each_other_in_both_directions() {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, 5).await;
    let auditor = world.auditor().await;
    let filter = reader::Filter::default();
    let seqs = |rows: Vec<audit::chain::Row>| rows.iter().map(|row| row.seq).collect::<Vec<_>>();

    assert_eq!(seqs(reader::page(&auditor, tenant, 0, 2, None).await.unwrap()), [1, 2]);
    assert_eq!(seqs(reader::page(&auditor, tenant, 4, 2, Some(&filter)).await.unwrap()), [5]);
    assert_eq!(seqs(reader::page_back(&auditor, tenant, u64::MAX, 2, &filter).await.unwrap()), [5, 4]);
    assert_eq!(seqs(reader::page_back(&auditor, tenant, 2, 2, &filter).await.unwrap()), [1]);

    let filter = reader::Filter { event_type: Some("tenant.created".to_owned()), ..filter };
    assert!(reader::page(&auditor, tenant, 0, 9, Some(&filter)).await.unwrap().is_empty());
}
