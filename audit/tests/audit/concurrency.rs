//! Many at once, on one chain and on several.

use std::sync::Arc;

use futures_util::future::join_all;
use mcp_core::audit::AuditSink as _;

use crate::world::{World, call, fact, intent, is_kept, outcome, tenant};

// proves: AU-12, C-K10
#[tokio::test(flavor = "multi_thread")]
async fn two_writers_and_sixty_four_tasks_never_fork_a_chain() {
    let world = World::new().await;
    let tenant = tenant();
    let writers = [Arc::new(world.writer()), Arc::new(world.writer())];

    let tasks = (0..64_usize).map(|number| {
        let writer = Arc::clone(&writers[number % 2]);
        tokio::spawn(async move {
            let mut receipts = Vec::new();
            for round in 0..20 {
                receipts.push(writer.append(fact(tenant, round)).await.unwrap());
            }
            receipts
        })
    });
    let receipts: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();

    let rows = world.rows(tenant).await;
    assert_eq!(rows.len(), 64 * 20);
    assert!(receipts.iter().all(|receipt| is_kept(&rows, receipt)));
    assert!(world.verdict(tenant).await.is_intact());
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_calls_on_many_tenants_leave_nothing_open() {
    let world = World::new().await;
    let writer = Arc::new(world.writer());
    let tenants: Vec<_> = (0..16).map(|_| tenant()).collect();

    let calls = tenants.iter().flat_map(|tenant| (0..8).map(|_| *tenant)).map(|tenant| {
        let (writer, call) = (Arc::clone(&writer), call());
        tokio::spawn(async move {
            writer.append(intent(tenant, call, writer.instance())).await.unwrap();
            writer.append(outcome(tenant, call)).await.unwrap();
        })
    });
    join_all(calls).await.into_iter().for_each(Result::unwrap);

    let verdicts = audit::verify::verify_all(&world.auditor().await, |_, _| {}).await.unwrap();
    assert_eq!(verdicts.len(), 16);
    for (_, verdict) in verdicts {
        let audit::verdict::Verdict::Intact { rows, open, .. } = verdict else { panic!("{verdict}") };
        assert_eq!((rows, open.len()), (16, 0));
    }
}
