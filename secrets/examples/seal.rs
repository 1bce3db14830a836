//! Seals a secret in a directory that lasts as long as the example, damages the file, and tries the wrong key.

use std::fs;
use std::path::Path;

use mcp_core::id::TenantId;
use mcp_core::secret::{SecretProvider, SecretValue};
use secrets::{LocalConfig, LocalSecrets, MasterKey};

#[expect(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let dir = home.path().join("secrets");
    let tenant = TenantId::from_uuid(uuid::Uuid::from_u128(1));

    let master = MasterKey::load_or_create(&home.path().join("master.key"), &dir)?;
    let secrets = LocalSecrets::open(LocalConfig { dir: dir.clone(), master })?;
    let reference = secrets.put(tenant, "proxmox:pve-1", SecretValue::new("a token".to_owned())).await?;
    println!("the database keeps {}", reference.as_str());
    println!("a log shows {:?}", secrets.get(tenant, &reference).await?);

    flip_the_last_bit_of_each_file(&dir.join(tenant.to_string()))?;
    match secrets.get(tenant, &reference).await {
        Ok(_) => println!("a damaged file opened"),
        Err(error) => println!("with one bit flipped: {error}"),
    }

    let wrong = MasterKey::from_text(&"0f".repeat(32))?;
    match LocalSecrets::open(LocalConfig { dir, master: wrong }) {
        Ok(_) => println!("the wrong key opened"),
        Err(error) => println!("with the wrong key: {error}"),
    }
    Ok(())
}

fn flip_the_last_bit_of_each_file(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let mut bytes = fs::read(&path)?;
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}
