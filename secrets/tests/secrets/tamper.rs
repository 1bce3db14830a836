//! Somebody who can write in the directory, and cannot read the master key.

use std::fs;

use mcp_core::secret::{SecretProvider as _, SecretValue};

use crate::files::{NAME, World, answer, put, reference, tenant};

// proves: C-J05
#[tokio::test]
async fn every_flipped_byte_and_every_cut_makes_the_secret_unavailable() {
    let world = World::new();
    put(&world.open(), 1, NAME, "s3cret").await;
    for path in [world.sealed(1), world.ledger(1)] {
        let right = fs::read(&path).unwrap();
        let secrets = world.open();
        for place in 0..right.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut forged = right.clone();
                forged[place] ^= flip;
                fs::write(&path, &forged).unwrap();
                assert_eq!(
                    answer(&secrets, 1, NAME).await,
                    "unavailable",
                    "byte {place} of {}",
                    path.display()
                );
            }
            fs::write(&path, &right[..place]).unwrap();
            assert_eq!(answer(&secrets, 1, NAME).await, "unavailable", "cut to {place}: {}", path.display());
        }
        fs::write(&path, [right.as_slice(), &[0]].concat()).unwrap();
        assert_eq!(answer(&secrets, 1, NAME).await, "unavailable", "longer");
        fs::write(&path, vec![0; 20 * 1024 * 1024]).unwrap();
        assert_eq!(answer(&secrets, 1, NAME).await, "unavailable", "far too long");
        fs::write(&path, &right).unwrap();
        assert_eq!(answer(&secrets, 1, NAME).await, "s3cret");
    }
}

// proves: C-J05
#[tokio::test]
async fn a_secret_moved_to_another_tenant_or_name_does_not_open() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "one").await;
    put(&secrets, 2, NAME, "two").await;
    let (one, two) = (fs::read(world.sealed(1)).unwrap(), fs::read(world.sealed(2)).unwrap());

    fs::write(world.sealed(2), &one).unwrap();
    assert_eq!(answer(&secrets, 2, NAME).await, "unavailable", "another tenant's file");
    fs::write(world.sealed(2), &two).unwrap();
    assert_eq!(answer(&secrets, 2, NAME).await, "two");

    fs::copy(world.ledger(1), world.ledger(2)).unwrap();
    assert_eq!(answer(&secrets, 2, NAME).await, "unavailable", "another tenant's ledger");
    fs::rename(world.tenant_dir(2), world.beside("two")).unwrap();
    fs::rename(world.tenant_dir(1), world.tenant_dir(2)).unwrap();
    assert_eq!(answer(&world.open(), 2, NAME).await, "unavailable", "another tenant's whole directory");
    fs::rename(world.tenant_dir(2), world.tenant_dir(1)).unwrap();

    // Names of one tenant: every file takes the place of every other one.
    let before = world.snapshot();
    put(&secrets, 1, "byom", "three").await;
    let after = world.snapshot();
    let added: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
    assert_eq!(added.len(), 1);
    fs::write(world.dir().join(added[0]), &one).unwrap();
    assert_eq!(answer(&secrets, 1, "byom").await, "unavailable", "another name's file");
    assert_eq!(answer(&secrets, 1, NAME).await, "one");
}

// proves: C-J05
#[tokio::test]
async fn an_older_version_does_not_come_back() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "old").await;
    let (old, old_path, old_ledger) =
        (fs::read(world.sealed(1)).unwrap(), world.sealed(1), fs::read(world.ledger(1)).unwrap());
    put(&secrets, 1, NAME, "new").await;
    let (new, new_path, new_ledger) =
        (fs::read(world.sealed(1)).unwrap(), world.sealed(1), fs::read(world.ledger(1)).unwrap());

    fs::write(&new_path, &old).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "unavailable", "in the place of the new one");
    fs::write(&new_path, &new).unwrap();
    fs::write(&old_path, &old).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "new", "beside the new one");
    fs::remove_file(&old_path).unwrap();
    fs::write(world.ledger(1), &old_ledger).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "unavailable", "the ledger alone");
    fs::write(&old_path, &old).unwrap();
    assert_eq!(answer(&secrets, 1, NAME).await, "unavailable", "ledger and file, while we run");
    let refused = secrets.put(tenant(1), NAME, SecretValue::new("newer".to_owned())).await;
    assert!(refused.is_err(), "and nothing is built upon them");

    fs::write(world.ledger(1), &new_ledger).unwrap();
    secrets.delete(tenant(1), &reference(NAME)).await.unwrap();
    fs::write(&new_path, &new).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "not found", "a deleted one");
}

// proves: C-J05
#[tokio::test]
async fn a_ledger_put_back_alone_does_not_make_a_write_destroy_newer_secrets() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "one").await;
    let old_ledger = fs::read(world.ledger(1)).unwrap();
    put(&secrets, 1, "two", "two").await;
    put(&secrets, 1, "three", "three").await;
    let before = world.snapshot();

    fs::write(world.ledger(1), &old_ledger).unwrap();
    let secrets = world.open();
    assert!(secrets.put(tenant(1), "four", SecretValue::new("four".to_owned())).await.is_err());
    assert!(secrets.delete(tenant(1), &reference(NAME)).await.is_err());
    world.restore(&before);
    for (name, value) in [(NAME, "one"), ("two", "two"), ("three", "three")] {
        assert_eq!(answer(&world.open(), 1, name).await, value);
    }
}

// proves: C-J05
#[tokio::test]
async fn a_missing_file_is_not_a_missing_secret() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, "one").await;
    let whole = world.snapshot();

    fs::remove_file(world.sealed(1)).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "unavailable", "the secret");
    world.restore(&whole);
    fs::remove_file(world.ledger(1)).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "unavailable", "the ledger");
    let refused = world.open().put(tenant(1), NAME, SecretValue::new("two".to_owned())).await;
    assert!(refused.is_err(), "no new ledger takes its place");
    world.restore(&whole);
    fs::rename(world.tenant_dir(1), world.beside("away")).unwrap();
    assert_eq!(answer(&secrets, 1, NAME).await, "unavailable", "everything, while we run");
    fs::rename(world.beside("away"), world.tenant_dir(1)).unwrap();
    assert_eq!(answer(&secrets, 1, NAME).await, "one");
}

/// The limit, on purpose: a backup of the whole directory is an older state that is genuine.
#[tokio::test]
async fn a_whole_directory_put_back_while_stopped_is_a_restore() {
    let world = World::new();
    put(&world.open(), 1, NAME, "old").await;
    let backup = world.snapshot();
    put(&world.open(), 1, NAME, "new").await;
    world.restore(&backup);
    assert_eq!(answer(&world.open(), 1, NAME).await, "old");
}
