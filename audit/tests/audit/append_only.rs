//! Nobody changes what is written: not the roles of the application, not the owner, not even a superuser by accident.

use tokio_postgres::error::SqlState;

use crate::world::{World, tenant};

const CHANGES: &[&str] = &[
    "update coreci.audit_log set seq = seq + 1",
    "delete from coreci.audit_log",
    "truncate coreci.audit_log",
    "insert into coreci.audit_log select * from coreci.audit_log on conflict (tenant_id, seq) do update set seq = 9",
    "update coreci.audit_heads set seq = 0",
    "delete from coreci.audit_heads",
    "truncate coreci.audit_heads",
];

// proves: AU-03, C-K01
#[tokio::test]
async fn nobody_can_change_what_is_written() {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, 3).await;

    for role in ["coreci_app", "coreci_audit", "coreci_migrator", "coreci_admin"] {
        let client = world.database.connect_as(role).await;
        for change in CHANGES {
            // The application sees rows only inside a tenant, and the trigger fires only where there is a row.
            let name = format!("select set_config('app.tenant_id', '{tenant}', false)");
            client.batch_execute(&name).await.unwrap();
            let error = match client.batch_execute(change).await {
                Err(error) => error,
                // The owner is under row-level security like everyone else, and sees nothing to change.
                Ok(()) if role == "coreci_migrator" && !change.contains("truncate") => continue,
                Ok(()) => panic!("{role} was allowed to {change}"),
            };
            // Generated columns cannot be inserted into, which stops the superuser's odd statement before the trigger.
            let refused = [&SqlState::INSUFFICIENT_PRIVILEGE, &SqlState::GENERATED_ALWAYS];
            assert!(refused.contains(&error.code().unwrap()), "{role}: {change}: {error:?}");
        }
    }

    assert_eq!(world.rows(tenant).await.len(), 3);
    assert!(world.verdict(tenant).await.is_intact());
}

// proves: AU-03
#[tokio::test]
async fn a_head_moves_forward_only() {
    let world = World::new().await;
    let tenant = tenant();
    world.chain_of(tenant, 3).await;

    let writer = world.auditor().await;
    let back = "update audit_heads set seq = 2 where tenant_id = $1";
    let error = writer.execute(back, &[&tenant.as_uuid()]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}
