//! Starts that cannot work: one sentence that says what to do, an exit code, nothing half-made.

use std::path::Path;
use std::process::Output;

use crate::server::{control_plane, run, scratch};

fn sentence(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!text.contains("panicked") && text.lines().count() == 1, "{text}");
    text
}

fn dev(data: &Path, args: &[&str]) -> Output {
    run(data, &[&["dev", "--once", "--internal-listen", "127.0.0.1:0"], args].concat())
}

#[test]
fn no_postgres_where_the_setting_points() {
    let (scratch, empty) = (scratch(), scratch());
    let data = scratch.path().join("data");
    let mut command = control_plane(&data);
    let output =
        command.env("CORECI_PG_BIN", empty.path()).args(["dev", "--once"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = sentence(&output);
    assert!(text.contains("CORECI_PG_BIN") && text.contains("initdb"), "{text}");
    assert!(!data.exists(), "nothing was made");
}

#[test]
fn a_data_directory_that_cannot_be_written() {
    let scratch = scratch();
    let file = scratch.path().join("a-file");
    std::fs::write(&file, "").expect("written");
    let output = dev(&file.join("data"), &["--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let text = sentence(&output);
    assert!(text.contains("a-file") && text.contains("data directory"), "{text}");
}

#[test]
fn a_port_that_is_taken() {
    let scratch = scratch();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let data = scratch.path().join("data");
    let output = dev(&data, &["--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let text = sentence(&output);
    assert!(text.contains(&address) && text.contains("--listen"), "{text}");
    assert!(!data.exists(), "nothing was made");
}

// proves: C-Q23
#[test]
fn a_public_address_without_what_it_needs() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let serve = |args: &[&str]| run(&data, &[&["serve", "--listen", "0.0.0.0:0"], args].concat());
    assert!(sentence(&serve(&[])).contains("public_url"));
    assert!(sentence(&serve(&["--public-url", "https://c.example"])).contains("--behind-proxy"));
    assert_eq!(run(&data, &["dev", "--listen", "0.0.0.0:0"]).status.code(), Some(2));
    assert_eq!(run(&data, &["dev", "--no-such-flag"]).status.code(), Some(2));
    assert!(!data.exists(), "nothing was made");
}

// proves: C-J07, C-O11
#[tokio::test]
async fn a_second_server_on_the_same_data_and_keys_that_are_exposed_wrong_or_missing() {
    use std::os::unix::fs::PermissionsExt as _;

    let scratch = scratch();
    let server = crate::server::Server::start(scratch.path()).await;
    let second =
        run(scratch.path(), &["serve", "--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(sentence(&second).contains("in use by another process"));
    assert_eq!(server.terminate(), Some(0));

    let key = scratch.path().join("keys/cursor.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let exposed =
        run(scratch.path(), &["serve", "--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"]);
    assert_eq!(exposed.status.code(), Some(1));
    assert!(sentence(&exposed).contains("chmod 600"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("changed");

    // A wrong master key and a missing one: said, and never replaced by a new one.
    let master = scratch.path().join("keys/master.key");
    let start =
        || run(scratch.path(), &["serve", "--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"]);
    std::fs::write(&master, "ab".repeat(32)).expect("written");
    let wrong = start();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(sentence(&wrong).contains("master key"));
    std::fs::remove_file(&master).expect("removed");
    let missing = start();
    assert_eq!(missing.status.code(), Some(1));
    assert!(sentence(&missing).contains("master key"));
    assert!(!master.exists(), "no new key was made");
}
