//! What CONFORMANCE.md says, against what is so.

use std::path::PathBuf;

use mcp_core::tool::catalogue;

use crate::artefacts::REVISIONS;

fn repo() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn document() -> String {
    std::fs::read_to_string(repo().join("CONFORMANCE.md")).expect("CONFORMANCE.md")
}

/// The rows of all tables, as their cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    rows.map(|row| row.split('|').map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

// proves: M-08, M-10, M-13
#[test]
fn everything_that_has_to_be_stated_is_stated() {
    let text = document();
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let wanted = ["Revisions", "Transports", "Lifecycle", "Shapes", "Names"];
    let wanted =
        wanted.into_iter().chain(["Translation for OpenAI-compatible models", "Deviations", "Evidence"]);
    assert_eq!(headings, wanted.collect::<Vec<_>>());
    for transport in ["in process", "Streamable HTTP", "stdio"] {
        assert!(rows(&text).iter().any(|row| row[0] == transport), "{transport}");
    }
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("The REST facade (`/api/mcp/…`) is not Streamable HTTP"));
}

// proves: M-13, X-06
#[test]
fn the_revisions_and_the_names_are_those_of_the_server() {
    let rows = rows(&document());
    let column = |heading: &str| -> Vec<Vec<String>> {
        let table = rows.iter().skip_while(|row| row[0] != heading).skip(2);
        table.take_while(|row| row.len() == 2).cloned().collect()
    };
    let revisions: Vec<String> = column("revision").into_iter().map(|mut row| row.remove(0)).collect();
    assert_eq!(revisions, REVISIONS);
    let names: Vec<Vec<String>> = catalogue()
        .iter()
        .map(|tool| vec![tool.name.as_str().to_owned(), tool.name.wire().to_owned()])
        .collect();
    assert_eq!(column("canonical"), names);
}

// proves: M-12, M-13
#[test]
fn the_artefacts_and_the_known_failures_are_those_in_the_repository() {
    let text = document();
    let listed = text.split("The seven artefacts").nth(1).and_then(|rest| rest.split("\n\n").next());
    let mut listed: Vec<&str> =
        listed.expect("a list").split(':').nth(1).expect("names").split('`').skip(1).step_by(2).collect();
    listed.sort_unstable();
    let folder = repo().join("conformance-tests/tests/conformance/snapshots");
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .expect("snapshots")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter_map(|name| {
            Some(name.strip_prefix("conformance__artefacts__")?.strip_suffix(".snap")?.to_owned())
        })
        .collect();
    there.sort_unstable();
    assert_eq!(listed, there);

    for tools in ["product", "fixtures"] {
        let entries = REVISIONS.map(|revision| {
            let list = repo().join(format!("scripts/peers/mcp/known-failures/{tools}/{revision}.yml"));
            let list = std::fs::read_to_string(list).expect("a list");
            list.lines().filter(|line| line.trim_start().starts_with("- ")).count().to_string()
        });
        let row = rows(&text).into_iter().find(|row| row[0] == tools).expect("a row");
        assert_eq!(row[1..], entries, "{tools}");
    }
}
