//! Two tenants, one table: `cargo run -p tenancy --example tenant_tx --features testing`.
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use mcp_core::id::TargetId;
use mcp_core::tool::AdapterKind;
use tenancy::TenancyError;
use tenancy::stores::target::{target_create, target_list};
use tenancy::testing::TestDatabase;

#[tokio::main]
async fn main() -> Result<(), TenancyError> {
    let database = TestDatabase::new().await;
    let (acme, globex) = (database.create_tenant("acme").await, database.create_tenant("globex").await);
    let tenancy = database.tenancy();

    let tx = tenancy.tx(acme).await?;
    target_create(&tx, TargetId::from_uuid(uuid::Uuid::new_v4()), AdapterKind::Gitea, "forge").await?;
    tx.commit().await?;

    for tenant in [acme, globex] {
        let tx = tenancy.tx(tenant).await?;
        let names: Vec<String> = target_list(&tx, None, 50).await?.into_iter().map(|one| one.name).collect();
        tx.commit().await?;
        println!("{tenant} sees {names:?}");
    }
    Ok(())
}
