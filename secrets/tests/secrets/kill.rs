//! A process that ends in the middle of a write.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_core::secret::SecretProvider as _;

use crate::files::{NAME, Snapshot, World, answer, master, open, put, reference, tenant};

/// Set in the child: the directory to write in.
const WRITE_IN: &str = "CORECI_TEST_WRITE_IN";
const THIS_TEST: &str = "kill::a_killed_writer_leaves_what_it_acknowledged_or_the_next";
const ROUNDS: u32 = 24;

// proves: C-J05
#[tokio::test]
async fn a_killed_writer_leaves_what_it_acknowledged_or_the_next() {
    if let Some(dir) = std::env::var_os(WRITE_IN) {
        write_for_ever(Path::new(&dir)).await;
    }
    let world = World::new();
    drop(world.open());
    for round in 0..ROUNDS {
        let acknowledged = kill_a_writer(world.dir().as_os_str(), round);
        let found = answer(&world.open(), 1, NAME).await;
        let number: u32 =
            found.split(' ').next().and_then(|number| number.parse().ok()).expect("a whole value");
        assert!(number == acknowledged || number == acknowledged + 1, "{acknowledged}, then {number}");
        assert_eq!(found, value(number));
    }
    put(&world.open(), 1, NAME, "after").await;
    assert_eq!(fs::read_dir(world.tenant_dir(1)).unwrap().count(), 2, "what the killed left is gone");
}

/// Large enough that a kill can fall into the writing.
fn value(number: u32) -> String {
    format!("{number} ").repeat(8000)
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
async fn write_for_ever(dir: &Path) {
    let secrets = open(dir, master()).unwrap();
    for number in 1.. {
        put(&secrets, 1, NAME, &value(number)).await;
        println!("\nwrote {number}");
    }
}

/// Answers with the last number that the writer said it had written.
fn kill_a_writer(dir: &OsStr, round: u32) -> u32 {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args([THIS_TEST, "--exact", "--nocapture"])
        .env(WRITE_IN, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut numbers =
        lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("wrote ")?.parse::<u32>().ok());

    let first = numbers.nth((round % 3) as usize).expect("the writer writes");
    // Each round falls a little later into the next write.
    let (started, later) = (Instant::now(), Duration::from_micros(u64::from(round) * 97));
    while started.elapsed() < later {
        std::hint::spin_loop();
    }
    writer.kill().unwrap();
    let last = numbers.last().unwrap_or(first);
    writer.wait().unwrap();
    last
}

/// Every state that a write passes through, made by hand.
// proves: C-J05
#[tokio::test]
async fn each_state_between_old_and_new_is_one_of_them() {
    let world = World::new();
    put(&world.open(), 1, NAME, "old").await;
    let old = world.snapshot();
    put(&world.open(), 1, NAME, "new").await;
    let new = world.snapshot();

    let (sealed, bytes) = new.iter().find(|(path, _)| !old.contains_key(*path)).unwrap();
    let (old_sealed, old_bytes) = old.iter().find(|(path, _)| !new.contains_key(*path)).unwrap();
    let ledger = PathBuf::from(tenant(1).to_string()).join("ledger");
    let with = |base: &Snapshot, added: &[(PathBuf, &[u8])]| {
        let added = added.iter().map(|(path, bytes)| (path.clone(), bytes.to_vec()));
        base.clone().into_iter().chain(added).collect::<Snapshot>()
    };
    let half = |bytes: &'static str| bytes.as_bytes();
    let states = [
        ("sealed file half written", with(&old, &[(sealed.with_extension("new"), &bytes[..20])]), "old"),
        ("sealed file in place", with(&old, &[(sealed.clone(), bytes)]), "old"),
        (
            "ledger half written",
            with(&old, &[(sealed.clone(), bytes), (ledger.with_extension("new"), half("CCIS"))]),
            "old",
        ),
        ("old sealed file not removed", with(&new, &[(old_sealed.clone(), old_bytes)]), "new"),
    ];
    for (state, snapshot, wanted) in &states {
        world.restore(snapshot);
        assert_eq!(answer(&world.open(), 1, NAME).await, *wanted, "{state}");
        put(&world.open(), 1, NAME, "newer").await;
        assert_eq!(answer(&world.open(), 1, NAME).await, "newer", "{state}");
        assert_eq!(world.snapshot_of(&world.tenant_dir(1)).len(), 2, "{state}: left-overs");

        world.restore(snapshot);
        world.open().delete(tenant(1), &reference(NAME)).await.unwrap();
        assert_eq!(answer(&world.open(), 1, NAME).await, "not found", "{state}");
        assert_eq!(
            world.snapshot_of(&world.tenant_dir(1)).len(),
            1,
            "{state}: ciphertext of a deleted secret"
        );
    }
}

/// The first write of a tenant has states of its own.
#[tokio::test]
async fn a_first_write_that_was_killed_can_be_done_again() {
    let world = World::new();
    drop(world.open());
    fs::create_dir(world.tenant_dir(1)).unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "not found");
    fs::write(world.tenant_dir(1).join("ledger.new"), b"CC").unwrap();
    assert_eq!(answer(&world.open(), 1, NAME).await, "not found");
    world.open().delete(tenant(1), &reference(NAME)).await.unwrap();
    put(&world.open(), 1, NAME, "one").await;
    assert_eq!(answer(&world.open(), 1, NAME).await, "one");
}
