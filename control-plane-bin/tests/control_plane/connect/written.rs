//! What `--write` does to a client's configuration, and to what others have in it.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::{Home, KEY, text};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("text")
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("one").file_name();
    let mut names: Vec<_> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn write(home: &Home, client: &str, file: &Path) -> Output {
    home.with_key(&[client, "--write", "--file", text(file)])
}

#[test]
fn each_client_finds_in_its_place_what_is_printed() {
    let home = Home::new();
    for (client, place) in [
        ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("claude-code", ".claude.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("codex", ".codex/config.toml"),
    ] {
        let printed = home.with_key(&[client]);
        let written = home.with_key(&[client, "--write"]);
        assert!(written.status.success(), "{}", home.redact(&written.stderr));
        assert!(written.stdout.is_empty(), "words go to standard error");
        let file = home.path(place);
        assert_eq!(read(&file).trim_end(), String::from_utf8_lossy(&printed.stdout).trim_end());
        assert_eq!(mode(&file), 0o600, "{client}");
        assert_eq!(
            names(file.parent().expect("one")).iter().filter(|name| name.contains(".new-")).count(),
            0
        );
    }
    for client in ["inspector", "curl"] {
        assert_eq!(home.with_key(&[client, "--write"]).status.code(), Some(2), "{client}");
    }
    let unused = home.path("x.json");
    assert_eq!(home.with_key(&["cursor", "--file", text(&unused)]).status.code(), Some(2));
    let homeless =
        home.command(&["cursor", "--write", "--url", "https://c.example"]).env("HOME", "").output();
    assert_eq!(homeless.expect("it runs").status.code(), Some(2));
}

#[test]
fn what_is_there_is_kept_and_the_earlier_text_beside_it() {
    let home = Home::new();
    let file = home.path("mcp.json");
    let before = "{\n    // mine\n    \"servers\": {\n        \"other\": { \"command\": \"x\" } // theirs\n    },\n}\n";
    std::fs::write(&file, before).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("changed");
    let output = home.with_key(&["vscode", "--write", "--file", text(&file), "-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let backup = home.path("mcp.json.bak");
    assert_eq!((&answer["changed"], &answer["backup"]), (&json!(true), &json!(text(&backup))));
    assert_eq!((read(&backup).as_str(), mode(&backup), mode(&file)), (before, 0o600, 0o640));
    insta::assert_snapshot!("beside_others", read(&file));

    // Again: nothing to do, nothing kept.
    let after = read(&file);
    let output = home.with_key(&["vscode", "--write", "--file", text(&file), "-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&answer["changed"], &answer["backup"]), (&json!(false), &Value::Null));
    assert_eq!(read(&file), after);

    // Another server of the same name: only what is about the server changes, and the first backup stays.
    let other = ["vscode", "--write", "--file", text(&file), "--url", "https://other.example"];
    assert!(home.connect(&other).status.success());
    assert_eq!(read(&file), after.replace("coreci.example", "other.example"));
    assert_eq!(read(&backup), before);
    assert_eq!(read(&home.path("mcp.json.bak.1")), after);
    assert_eq!(names(home.directory.path()), ["api.key", "mcp.json", "mcp.json.bak", "mcp.json.bak.1"]);
}

#[test]
fn toml_is_edited_with_the_same_care() {
    let home = Home::new();
    let file = home.path("config.toml");
    let before = "# mine\r\nmodel = \"x\" # odd\r\n\r\n[mcp_servers.other]\r\ncommand = \"y\"\r\n\r\n[mcp_servers.coreci]\r\ncommand = \"old\"\r\nenabled_tools = [ \"a\" ]\r\n";
    std::fs::write(&file, format!("\u{feff}{before}")).expect("written");
    assert!(write(&home, "codex", &file).status.success());
    let after = read(&file);
    assert!(after.starts_with("\u{feff}# mine\r\nmodel = \"x\" # odd\r\n\r\n[mcp_servers.other]\r\n"));
    assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
    insta::assert_snapshot!("codex_beside_others", after.trim_start_matches('\u{feff}').replace('\r', ""));
    assert!(write(&home, "codex", &file).status.success());
    assert_eq!(read(&file), after);
}

#[test]
fn the_marks_of_other_editors_survive() {
    let home = Home::new();
    let file = home.path("mcp.json");
    std::fs::write(&file, "\u{feff}{\r\n\t\"mcpServers\": {}\r\n}\r\n").expect("written");
    assert!(write(&home, "cursor", &file).status.success());
    let after = read(&file);
    assert!(after.starts_with("\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"coreci\": {\r\n"), "{after:?}");
    assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
    for empty in ["", "\n", "\u{feff}"] {
        std::fs::write(&file, empty).expect("written");
        assert!(write(&home, "cursor", &file).status.success(), "{empty:?}");
        let value: Value = serde_json::from_str(read(&file).trim_start_matches('\u{feff}')).expect("JSON");
        assert_eq!(value["mcpServers"]["coreci"]["url"], "https://coreci.example/mcp");
    }
}

#[test]
fn what_cannot_be_edited_is_left_alone_and_its_secrets_unsaid() {
    let home = Home::new();
    let file = home.path("config");
    for (client, content) in [
        ("cursor", b"{\"token\": \"s3cret\"".to_vec()),
        ("cursor", b"{\"mcpServers\": [\"s3cret\"]}".to_vec()),
        ("cursor", b"{\"mcpServers\": {}, \"mcpServers\": {}}".to_vec()),
        ("cursor", b"[]".to_vec()),
        ("cursor", b"\xff\xfe{\0}\0".to_vec()),
        ("codex", b"token = s3cret".to_vec()),
        ("codex", b"mcp_servers = \"s3cret\"".to_vec()),
    ] {
        std::fs::write(&file, &content).expect("written");
        let output = write(&home, client, &file);
        let said = home.redact(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("left as it is") && !said.contains("s3cret"), "{said}");
        assert_eq!(std::fs::read(&file).expect("there"), content);
    }
    assert_eq!(names(home.directory.path()), ["api.key", "config"], "no backup, nothing half-written");
    let directory = home.path("directory");
    std::fs::create_dir(&directory).expect("made");
    let pipe = home.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .expect("made");
    symlink(home.path("nowhere"), home.path("dangling")).expect("linked");
    for odd in [&directory, &pipe, &home.path("dangling"), &home.path("api.key/below")] {
        assert_eq!(write(&home, "cursor", odd).status.code(), Some(1), "{}", odd.display());
    }
}

#[test]
fn a_link_stays_a_link() {
    let home = Home::new();
    let (real, link) = (home.path("dotfiles.json"), home.path("mcp.json"));
    std::fs::write(&real, "{}").expect("written");
    symlink("dotfiles.json", &link).expect("linked");
    assert!(write(&home, "cursor", &link).status.success());
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(read(&real).contains("coreci.example"));
    assert_eq!(read(&home.path("dotfiles.json.bak")), "{}");
}

#[test]
fn a_file_that_holds_the_key_is_for_its_owner_only() {
    let home = Home::new();
    let file = home.path("mcp.json");
    std::fs::write(&file, "{}").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let embed = ["cursor", "--write", "--embed-key", "--file", text(&file)];
    assert!(home.with_key(&embed).status.success());
    assert!(read(&file).contains(KEY));
    assert_eq!(mode(&file), 0o600);
    // Opened up again, it is closed again, though no letter changes.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    assert!(home.with_key(&embed).status.success());
    assert_eq!(mode(&file), 0o600);
    assert_eq!(names(home.directory.path()), ["api.key", "mcp.json", "mcp.json.bak"]);
    // And back to a variable: the key is gone from it, and private in the backup.
    assert!(write(&home, "cursor", &file).status.success());
    assert!(!read(&file).contains(KEY));
    assert_eq!(mode(&home.path("mcp.json.bak.1")), 0o600);
}
