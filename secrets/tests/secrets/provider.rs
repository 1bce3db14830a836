//! What the port promises.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mcp_core::secret::{SecretError, SecretProvider as _, SecretRef, SecretValue};

use crate::files::{NAME, World, answer, get, put, reference, tenant};

// proves: SE-01, AD-03
#[tokio::test]
async fn a_secret_is_stored_replaced_read_after_a_restart_and_destroyed() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "one").await;
    put(&secrets, 1, "byom", "another").await;
    put(&secrets, 1, NAME, "two").await;
    assert_eq!(answer(&secrets, 1, NAME).await, "two");

    let secrets = world.open();
    assert_eq!(answer(&secrets, 1, NAME).await, "two");
    assert_eq!(answer(&secrets, 1, "byom").await, "another");

    secrets.delete(tenant(1), &reference(NAME)).await.unwrap();
    secrets.delete(tenant(1), &reference(NAME)).await.unwrap();
    assert_eq!(answer(&secrets, 1, NAME).await, "not found");
    assert_eq!(answer(&world.open(), 1, "byom").await, "another");
    let left = fs::read_dir(world.tenant_dir(1)).unwrap().count();
    assert_eq!(left, 2, "the ledger and the other secret: old versions and deleted ones leave the disk");
}

// proves: SE-04
#[tokio::test]
async fn another_tenants_secret_is_not_there() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "one").await;
    assert_eq!(answer(&secrets, 2, NAME).await, "not found", "a tenant without secrets");
    put(&secrets, 2, "byom", "two").await;
    assert_eq!(answer(&secrets, 2, NAME).await, "not found", "a tenant with secrets");

    secrets.delete(tenant(2), &reference(NAME)).await.unwrap();
    secrets.delete(tenant(3), &reference(NAME)).await.unwrap();
    assert_eq!(answer(&secrets, 1, NAME).await, "one", "another tenant cannot destroy it");
    put(&secrets, 2, NAME, "mine").await;
    assert_eq!(answer(&secrets, 1, NAME).await, "one", "the same name is another secret");
}

#[tokio::test]
async fn names_and_references_that_are_not_ours() {
    let world = World::new();
    let secrets = world.open();
    for name in ["", "../../etc/passwd", "a/b", "a b", "a\0"] {
        let refused = secrets.put(tenant(1), name, SecretValue::new("x".to_owned())).await;
        assert!(matches!(refused, Err(SecretError::Unavailable(_))), "{name:?}");
        assert_eq!(answer(&secrets, 1, name).await, "not found");
        secrets.delete(tenant(1), &reference(name)).await.unwrap();
    }
    let foreign = SecretRef::new("aws-sm:coreci/x/byom");
    assert!(matches!(secrets.get(tenant(1), &foreign).await, Err(SecretError::Unavailable(_))));
    assert!(secrets.delete(tenant(1), &foreign).await.is_err(), "nobody believes that it is gone");
    assert_eq!(world.snapshot().len(), 1, "nothing but the check value was written");
}

#[tokio::test]
async fn a_secret_has_a_size() {
    let world = World::new();
    let secrets = world.open();
    let largest = "x".repeat(64 * 1024);
    put(&secrets, 1, NAME, &largest).await;
    assert_eq!(answer(&secrets, 1, NAME).await, largest);
    let larger = SecretValue::new(largest.clone() + "x");
    assert!(secrets.put(tenant(1), NAME, larger).await.is_err());
    put(&secrets, 1, "empty", "").await;
    assert_eq!(get(&secrets, 1, "empty").await.unwrap(), "");
}

// proves: SE-03
#[tokio::test]
async fn only_the_owner_reaches_the_files() {
    fn check(path: &Path) {
        let metadata = fs::metadata(path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, wanted, "{}", path.display());
        if metadata.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path()));
        }
    }
    let world = World::new();
    put(&world.open(), 1, NAME, "one").await;
    check(&world.dir());
}

/// Two processes, as a server and a command beside it, are two handles that were opened apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_and_readers_see_whole_secrets() {
    let world = World::new();
    let (server, command) = (world.open(), world.open());
    put(&server, 1, NAME, "w0").await;
    let mut tasks = Vec::new();
    for n in 0..8_u8 {
        let secrets = if n % 2 == 0 { server.clone() } else { command.clone() };
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                put(&secrets, 1, &format!("own-{n}"), &format!("{n}-{round}")).await;
                put(&secrets, 1, NAME, &format!("w{n}")).await;
                assert_eq!(answer(&secrets, 1, &format!("own-{n}")).await, format!("{n}-{round}"));
                assert!(answer(&secrets, 1, NAME).await.starts_with('w'));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..8 {
        assert_eq!(answer(&world.open(), 1, &format!("own-{n}")).await, format!("{n}-9"));
    }
}

/// The future is dropped after its first poll; the work goes on or never starts.
#[tokio::test]
async fn a_dropped_put_leaves_the_old_or_the_new() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "old").await;
    for _ in 0..20 {
        let mut dropped = secrets.put(tenant(1), NAME, SecretValue::new("new".to_owned()));
        std::future::poll_fn(|cx| {
            let _ = dropped.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        drop(dropped);
        let now = answer(&secrets, 1, NAME).await;
        assert!(now == "old" || now == "new", "{now}");
    }
}
