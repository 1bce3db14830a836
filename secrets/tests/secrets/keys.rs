//! The master key: where it may come from, and what a wrong one does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrets::{KeyError, MasterKey, OpenError};

use crate::files::{NAME, World, answer, every_word, master, open, other_master, put};

fn write_key(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// proves: SE-03
#[test]
fn a_key_is_read_from_a_private_file_or_a_text() {
    let world = World::new();
    let path = world.beside("master.key");
    let raw: Vec<u8> = (200..232).collect();
    let text: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = MasterKey::from_text(&text).unwrap().id();

    let forms = [raw, text.clone().into_bytes(), format!(" {}\r\n", text.to_uppercase()).into_bytes()];
    for form in forms {
        for mode in [0o600, 0o400] {
            write_key(&path, &form, mode);
            assert_eq!(MasterKey::from_file(&path).unwrap().id(), wanted);
            fs::remove_file(&path).unwrap();
        }
    }
    assert_eq!(MasterKey::from_text(&format!("\n{text} \n")).unwrap().id(), wanted);
    assert_ne!(master().id(), wanted);
}

// proves: SE-03
#[test]
fn a_key_file_within_the_reach_of_others_is_refused() {
    let world = World::new();
    let path = world.beside("master.key");
    for mode in [0o640, 0o604, 0o620, 0o660, 0o644, 0o666, 0o601] {
        write_key(&path, "5a".repeat(32).as_bytes(), mode);
        let refused = MasterKey::from_file(&path).unwrap_err();
        assert!(matches!(refused, KeyError::Exposed(_)), "{mode:o}");
        assert!(refused.to_string().contains("chmod 600"));
    }
    assert!(matches!(MasterKey::from_file(&world.beside("")), Err(KeyError::NotAFile(_))));
    assert!(matches!(MasterKey::from_file(&world.beside("none")), Err(KeyError::File(_))));
}

// proves: C-J02
#[test]
fn what_is_no_key_is_refused_without_being_quoted() {
    let world = World::new();
    let path = world.beside("master.key");
    let half = "canary0123456789".repeat(2);
    let words = [
        "",
        " ",
        "canary",
        half.as_str(),
        &"zz".repeat(32),
        &"00".repeat(32),
        &"5a".repeat(33),
        &"é".repeat(32),
    ];
    for text in words {
        let from_text = MasterKey::from_text(text).unwrap_err();
        write_key(&path, text.as_bytes(), 0o600);
        let from_file = MasterKey::from_file(&path).unwrap_err();
        for refused in [from_text, from_file] {
            assert!(matches!(refused, KeyError::Malformed), "{text:?}");
            assert!(!every_word(&refused).contains("canary"));
        }
    }
    write_key(&path, &[0; 32], 0o600);
    assert!(matches!(MasterKey::from_file(&path), Err(KeyError::Malformed)), "an allocated file");
    write_key(&path, &[b'x'; 5000], 0o600);
    assert!(matches!(MasterKey::from_file(&path), Err(KeyError::File(_))), "some other file");
}

// proves: C-J07
#[tokio::test]
async fn the_wrong_key_opens_nothing_and_changes_nothing() {
    let world = World::new();
    drop(world.open());
    for with_secret in [false, true] {
        if with_secret {
            put(&world.open(), 1, NAME, "one").await;
        }
        let before = world.snapshot();
        let refused = open(&world.dir(), other_master()).unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, OpenError::WrongMasterKey { .. }));
        for word in [master().id().to_string(), other_master().id().to_string(), "give the key".to_owned()] {
            assert!(message.contains(&word), "{message}");
        }
        assert_eq!(world.snapshot(), before);
    }
    assert_eq!(answer(&world.open(), 1, NAME).await, "one");
}

// proves: C-J07
#[tokio::test]
async fn a_missing_or_damaged_check_value_is_never_made_anew() {
    let world = World::new();
    put(&world.open(), 1, NAME, "one").await;
    let check = world.dir().join("key-check");
    let right = fs::read(&check).unwrap();

    for (place, _) in right.iter().enumerate() {
        for bit in 0..8 {
            let mut forged = right.clone();
            forged[place] ^= 1 << bit;
            fs::write(&check, &forged).unwrap();
            assert!(open(&world.dir(), master()).is_err(), "byte {place}, bit {bit}");
        }
        fs::write(&check, &right[..place]).unwrap();
        assert!(
            matches!(open(&world.dir(), master()), Err(OpenError::CheckDamaged { .. })),
            "cut to {place}"
        );
    }
    fs::remove_file(&check).unwrap();
    for key in [master(), other_master()] {
        let refused = open(&world.dir(), key).unwrap_err();
        assert!(matches!(refused, OpenError::CheckMissing(_)));
        assert!(refused.to_string().contains("restore"));
    }
    assert!(!check.exists());
    fs::write(&check, &right).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "one");
}

#[test]
fn a_directory_within_the_reach_of_others_is_refused() {
    let world = World::new();
    drop(world.open());
    fs::set_permissions(world.dir(), fs::Permissions::from_mode(0o750)).unwrap();
    let refused = open(&world.dir(), master()).unwrap_err();
    assert!(matches!(refused, OpenError::Exposed(_)));
    assert!(refused.to_string().contains("chmod 700"));
}

// proves: C-J07, SE-03
#[tokio::test]
async fn a_key_is_made_only_where_nothing_is_sealed() {
    let world = World::new();
    let path = world.beside("keys/master.key");
    let made = MasterKey::load_or_create(&path, &world.dir()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(MasterKey::load_or_create(&path, &world.dir()).unwrap().id(), made.id());
    assert_eq!(MasterKey::from_file(&path).unwrap().id(), made.id());

    // Lost before anything was sealed: a new one does no harm.
    fs::remove_file(&path).unwrap();
    let again = MasterKey::load_or_create(&path, &world.dir()).unwrap();
    assert_ne!(again.id(), made.id());

    // Lost afterwards, whichever of check value and secrets is left.
    put(&open(&world.dir(), again).unwrap(), 1, NAME, "one").await;
    fs::remove_file(&path).unwrap();
    let refuse = || {
        let refused = MasterKey::load_or_create(&path, &world.dir()).unwrap_err();
        assert!(matches!(refused, KeyError::Missing { .. }));
        assert!(refused.to_string().contains("put the key back"));
        assert!(!path.exists());
    };
    refuse();
    let check = fs::read(world.dir().join("key-check")).unwrap();
    fs::remove_file(world.dir().join("key-check")).unwrap();
    refuse();
    fs::remove_dir_all(world.tenant_dir(1)).unwrap();
    fs::write(world.dir().join("key-check"), check).unwrap();
    refuse();
}

#[test]
fn a_damaged_key_file_is_never_replaced() {
    let world = World::new();
    let path = world.beside("master.key");
    write_key(&path, b"", 0o600);
    assert!(matches!(MasterKey::load_or_create(&path, &world.dir()), Err(KeyError::Malformed)));
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn of_many_that_start_at_once_one_makes_the_key() {
    let world = World::new();
    let (path, dir) = (world.beside("master.key"), world.dir());
    let ids = std::thread::scope(|scope| {
        let starts: Vec<_> =
            (0..8).map(|_| scope.spawn(|| MasterKey::load_or_create(&path, &dir).unwrap().id())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}
