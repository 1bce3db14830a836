//! Stores a secret, passes its reference around, and tries to print the value.

use mcp_core::id::TenantId;
use mcp_core::secret::{SecretProvider, SecretValue};
use secrets::MemorySecrets;

#[expect(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), mcp_core::secret::SecretError> {
    let tenant = TenantId::from_uuid(uuid::Uuid::from_u128(1));
    let secrets = MemorySecrets::default();
    let reference = secrets.put(tenant, "github:main", SecretValue::new("a token".to_owned())).await?;

    println!("the database keeps {}", reference.as_str());
    println!("a log shows {:?}", secrets.get(tenant, &reference).await?);
    Ok(())
}
