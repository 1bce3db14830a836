//! What an onlooker sees: files, errors, debug output, and the crate's own interface.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use mcp_core::secret::{SecretProvider as _, SecretValue};
use secrets::LocalConfig;

use crate::files::{NAME, World, every_word, get, master, open, other_master, put, reference, tenant};

const CANARY: &str = "canary-7f3a9c51e8";

// proves: C-J02
#[tokio::test]
async fn no_debug_output_and_no_error_shows_a_secret() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, CANARY).await;
    let config = LocalConfig { dir: world.dir(), master: master() };
    let mut seen = format!("{secrets:?} {secrets:#?} {config:?} {config:#?} {:?}", master());
    assert!(seen.contains("[REDACTED]"));

    seen += &every_word(&open(&world.dir(), other_master()).unwrap_err());
    let too_long = SecretValue::new(CANARY.repeat(10_000));
    seen += &every_word(&secrets.put(tenant(1), NAME, too_long).await.unwrap_err());
    let bad_name =
        secrets.put(tenant(1), CANARY.replace('-', "/").as_str(), SecretValue::new(CANARY.to_owned())).await;
    seen += &every_word(&bad_name.unwrap_err());
    let (sealed, right) = (world.sealed(1), fs::read(world.sealed(1)).unwrap());
    for place in 0..right.len() {
        let mut forged = right.clone();
        forged[place] ^= 1;
        fs::write(&sealed, forged).unwrap();
        seen += &every_word(&get(&secrets, 1, NAME).await.unwrap_err());
    }
    fs::remove_file(&sealed).unwrap();
    seen += &every_word(&get(&secrets, 1, NAME).await.unwrap_err());

    let key = "5a".repeat(32);
    for secret in [CANARY, "canary", &key, "90, 90, 90", "5b5b5b", "91, 91, 91"] {
        assert!(!seen.contains(secret), "{secret}");
    }
}

// proves: C-J14
#[tokio::test]
async fn neither_the_references_nor_the_files_give_a_secret_away() {
    let world = World::new();
    let secrets = world.open();
    put(&secrets, 1, NAME, CANARY).await;
    // The database holds this.
    assert!(!reference(NAME).as_str().contains(CANARY));

    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let words =
        [CANARY, &hex, &STANDARD_NO_PAD.encode(CANARY), &URL_SAFE_NO_PAD.encode(CANARY), NAME, "proxmox"];
    for (path, bytes) in world.snapshot() {
        let text = format!("{} {}", path.display(), String::from_utf8_lossy(&bytes));
        for word in words {
            assert!(!text.contains(word), "{word} in {}", path.display());
        }
    }

    // A copy of all of it is worth nothing without the master key.
    assert!(open(&world.dir(), other_master()).is_err());
    let stolen = World::new();
    drop(open(&stolen.dir(), other_master()).unwrap());
    fs::rename(world.tenant_dir(1), stolen.tenant_dir(1)).unwrap();
    let opened = open(&stolen.dir(), other_master()).unwrap();
    assert!(get(&opened, 1, NAME).await.is_err(), "below a check value of the thief's own");
}

/// The sources of this crate, without their tests.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.push((path, code));
            }
        }
    }
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 5);
    found
}

// proves: C-J11
#[test]
fn nothing_lists_or_reads_secrets_but_the_port() {
    let sources = sources();
    let lines = sources.iter().flat_map(|(_, code)| code.lines().map(str::trim));
    let mut public: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub async fn ")))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    public.sort_unstable();
    assert_eq!(public, ["from_file", "from_text", "id", "load_or_create", "open"]);
    let serialised = sources.iter().find(|(_, code)| code.contains("Serialize"));
    assert!(serialised.is_none(), "{serialised:?}");
}

/// Comparing secrets stops at the first byte that differs, and so tells how many were right.
// proves: C-J12
#[test]
fn no_secret_is_compared() {
    let words = ["reveal", "plaintext", "value", "digits", "self.0", "master"];
    for (path, code) in sources() {
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let compares = line.contains(" == ") || line.contains(" != ") || line.contains("assert_eq");
            let tells = words.iter().any(|word| line.contains(word))
                && !line.contains(".len()")
                && !line.contains("master.id()");
            assert!(!(compares && tells), "{}: {line}", path.display());
        }
    }
}
