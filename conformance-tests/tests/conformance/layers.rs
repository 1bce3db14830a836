//! Who imports whom. A new edge shows up as a diff of the snapshot, for somebody to agree with.

use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata runs");
    let mut packages = metadata.packages;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages
}

/// The crates of ours that a crate imports, tests aside.
fn imports(package: &Package) -> Vec<String> {
    let ours = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    let normal = ours.filter(|dependency| dependency.kind == DependencyKind::Normal);
    let mut names: Vec<_> = normal.map(|dependency| dependency.name.clone()).collect();
    names.sort();
    names
}

/// The text of every source file of a crate, tests aside.
fn sources(package: &Package) -> Vec<(PathBuf, String)> {
    let root = package.manifest_path.parent().expect("a folder").as_std_path();
    let mut found = Vec::new();
    collect(&root.join("src"), &mut found);
    assert!(!found.is_empty(), "{} has no sources", package.name);
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            found.push((path, text));
        }
    }
}

// proves: DB-10
#[test]
fn the_graph_of_our_crates_is_as_committed() {
    let lines = packages()
        .iter()
        .map(|package| format!("{} -> {}", package.name, imports(package).join(", ")))
        .collect::<Vec<_>>();
    insta::assert_snapshot!("layers", lines.join("\n"));
}

#[test]
fn the_core_imports_nothing_and_the_agent_imports_the_core_only() {
    for package in packages() {
        match package.name.as_str() {
            "mcp-core" | "egress" => assert_eq!(imports(&package), Vec::<String>::new()),
            "adapter-proxmox" | "upstream" => {
                assert_eq!(imports(&package), ["egress", "mcp-core"], "{}", package.name);
            }
            "adapter-github" | "adapter-gitea" => {
                assert_eq!(imports(&package), ["egress", "mcp-core", "upstream"], "{}", package.name);
            }
            "relay-agent" | "adapter-ssh" | "mcp-broker" | "secrets" | "audit" | "tenancy" => {
                assert_eq!(imports(&package), ["mcp-core"], "{}", package.name);
            }
            _ => assert!(!imports(&package).iter().any(|name| name == "conformance-tests")),
        }
    }
}

/// One technology, one door: a word that only some crates may write.
#[test]
fn each_technology_has_its_one_door() {
    let doors: &[(&str, &[&str])] = &[
        // Opening a database connection.
        ("NoTls", &["tenancy", "audit"]),
        ("deadpool_postgres", &["tenancy"]),
        // Dialling a host that a customer can name.
        ("TcpStream::connect", &["egress", "relay-agent"]),
        // Routing HTTP.
        ("axum::", &["http-api", "llm-mock"]),
        // MCP's wire.
        ("rmcp::", &["mcp-broker"]),
        ("jsonwebtoken::", &["identity"]),
        // Starting a process.
        ("process::Command", &["tenancy", "relay-agent"]),
        // Revealing what should not be shown: see also clippy.toml.
        ("danger_accept_invalid", &[]),
        ("unsafe {", &[]),
    ];
    for package in packages() {
        for (path, text) in sources(&package) {
            for (word, allowed) in doors {
                let is_allowed = allowed.contains(&package.name.as_str());
                assert!(is_allowed || !text.contains(word), "{} may not say {word}", path.display());
            }
        }
    }
}

// proves: L-05
#[test]
fn neither_program_contains_the_model_that_only_tests_have() {
    let metadata = MetadataCommand::new().exec().expect("cargo metadata runs");
    let resolve = metadata.resolve.as_ref().expect("a resolved graph");
    for program in ["control-plane", "relay-agent"] {
        let root = metadata.packages.iter().find(|package| package.name == program).expect("a program");
        let mut waiting = vec![&root.id];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = resolve.nodes.iter().find(|node| node.id == *id).expect("a node");
            let is_normal = |dependency: &&cargo_metadata::NodeDep| {
                dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
            };
            waiting.extend(node.deps.iter().filter(is_normal).map(|dependency| &dependency.pkg));
        }
        let names = metadata.packages.iter().filter(|package| seen.contains(&package.id));
        let names: Vec<_> = names.map(|package| package.name.as_str()).collect();
        assert!(names.contains(&"mcp-core"), "{program}: the walk found nothing");
        assert!(!names.contains(&"llm-mock") && !names.contains(&"conformance-tests"), "{program}");
    }
}

// proves: DB-07
#[test]
fn no_test_is_switched_off_or_asserts_nothing() {
    let words = ["#[ignore", "assert!(true)", "todo!(", "unimplemented!("];
    let here = Path::new(file!()).file_name().expect("a name");
    for package in packages() {
        let root = package.manifest_path.parent().expect("a folder").as_std_path();
        let mut files = sources(&package);
        if root.join("tests").is_dir() {
            collect(&root.join("tests"), &mut files);
        }
        for (path, text) in files {
            if path.file_name() == Some(here) {
                continue;
            }
            for word in words {
                assert!(!text.contains(word), "{} says {word}", path.display());
            }
        }
    }
}
