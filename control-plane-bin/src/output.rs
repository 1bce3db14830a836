//! What commands print: data on standard output as a table or JSON, words on standard error.

use clap::ValueEnum;
use serde_json::Value;

/// The form of a command's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, for people.
    Table,
    /// JSON, for programs.
    Json,
}

/// Prints a list, or one object, of JSON. A table shows the named columns.
pub(crate) fn print(format: Format, columns: &[&str], value: &Value) {
    match format {
        Format::Json => line(&format!("{value:#}")),
        Format::Table => table(columns, value),
    }
}

/// Prints one line on standard output.
#[expect(clippy::print_stdout, reason = "this is the one place where commands print their data")]
pub(crate) fn line(text: &str) {
    println!("{text}");
}

fn table(columns: &[&str], value: &Value) {
    let rows: Vec<&Value> = match value {
        Value::Array(rows) => rows.iter().collect(),
        one => vec![one],
    };
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| cell(&row[*column])).collect()).collect();
    let width = |at: usize| {
        let widest = cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        widest.max(columns[at].chars().count())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let draw = |row: Vec<&str>| {
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
        line(padded.join("  ").trim_end());
    };
    draw(columns.to_vec());
    for row in &cells {
        draw(row.iter().map(String::as_str).collect());
    }
}

/// A value as a cell. What hosts and people named themselves is freed of control characters, so that no name can move the
/// cursor.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
