//! An entry in Codex's TOML configuration. All else in the text stays as it is, comments and spaces included.

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use super::edit::EditError;

/// Key of the table that holds the servers.
const SECTION: &str = "mcp_servers";

/// Keys of an entry that say how a server is reached. Those of another way would contradict ours.
const TRANSPORT: [&str; 9] = [
    "command",
    "args",
    "env",
    "env_vars",
    "cwd",
    "url",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
];

/// The entry.
pub(super) struct TomlEdit {
    /// Its name.
    pub(super) name: String,
    /// Keys and values, in the order in which they are written.
    pub(super) entry: Vec<(&'static str, String)>,
}

impl TomlEdit {
    /// The text with the entry in it. Settings of the entry that do not say how the server is reached are kept.
    pub(super) fn apply(&self, text: &str) -> Result<String, EditError> {
        let mut document: DocumentMut = text.parse().map_err(|error| syntax(text, &error))?;
        let mut servers = Table::new();
        servers.set_implicit(true);
        let servers = table(document.as_table_mut(), SECTION, servers)?;
        let entry = table(servers, &self.name, Table::new())?;
        for key in TRANSPORT {
            if !self.entry.iter().any(|(ours, _)| *ours == key) {
                entry.remove(key);
            }
        }
        for (key, value) in &self.entry {
            set(entry, key, value);
        }
        Ok(document.to_string())
    }
}

/// The table of this name, made if need be.
fn table<'a>(
    parent: &'a mut dyn TableLike,
    name: &str,
    new: Table,
) -> Result<&'a mut dyn TableLike, EditError> {
    if !parent.contains_key(name) {
        parent.insert(name, Item::Table(new));
    }
    let found = parent.get_mut(name).and_then(Item::as_table_like_mut);
    found.ok_or_else(|| EditError::Shape(name.to_owned(), "a table"))
}

/// Sets what differs, and leaves the comment beside it.
fn set(table: &mut dyn TableLike, key: &str, text: &str) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(value) if value.as_str() == Some(text) => {}
        Some(value) => {
            let decor = value.decor().clone();
            *value = Value::from(text);
            *value.decor_mut() = decor;
        }
        None => {
            table.insert(key, toml_edit::value(text));
        }
    }
}

/// The parser's own text would quote the line, and the secret that may stand in it.
fn syntax(text: &str, error: &toml_edit::TomlError) -> EditError {
    let before = error.span().and_then(|span| text.get(..span.start));
    let place = before.map(|before| format!(" on line {}", before.matches('\n').count() + 1));
    EditError::Syntax {
        language: "TOML",
        reason: format!("{}{}", error.message().replace('\n', " "), place.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit() -> TomlEdit {
        let entry = vec![("url", "http://c/mcp".to_owned()), ("bearer_token_env_var", "K".to_owned())];
        TomlEdit { name: "coreci".to_owned(), entry }
    }

    #[test]
    fn what_others_wrote_is_kept_to_the_letter() {
        let text =
            "# mine\nmodel   = 'x' # odd\n\n[mcp_servers.other]\ncommand = \"y\" # z\n\n[tui]\na = 1\n";
        let edited = edit().apply(text).expect("edited");
        for line in text.lines() {
            assert!(edited.lines().any(|kept| kept == line), "{line} in {edited}");
        }
        assert!(
            edited.contains("[mcp_servers.coreci]\nurl = \"http://c/mcp\"\nbearer_token_env_var = \"K\"\n")
        );
        assert_eq!(edit().apply(&edited).expect("again"), edited);
    }

    #[test]
    fn an_entry_that_is_there_keeps_what_is_not_about_the_way_to_the_server() {
        let text = "[mcp_servers.coreci]\ncommand = \"old\"\nurl = \"u\" # here\nenabled_tools = [\"a\"]\n[mcp_servers.coreci.env]\nA = \"1\"\n";
        let edited = edit().apply(text).expect("edited");
        assert_eq!(
            edited,
            "[mcp_servers.coreci]\nurl = \"http://c/mcp\" # here\nenabled_tools = [\"a\"]\nbearer_token_env_var = \"K\"\n"
        );
        let inline = "mcp_servers = { other = { url = \"o\" } } # one line\n";
        let edited = edit().apply(inline).expect("edited");
        assert!(edited.starts_with("mcp_servers = { other = { url = \"o\" }"), "{edited}");
        assert!(edited.parse::<DocumentMut>().expect("TOML")["mcp_servers"]["coreci"]["url"].is_str());
        assert_eq!(edit().apply(&edited).expect("again"), edited);
    }

    #[test]
    fn what_cannot_be_understood_is_refused_without_repeating_it() {
        let deep = format!("a = {}", "[".repeat(100_000));
        for text in [
            "[",
            "a = \n",
            "key = s3cret",
            "mcp_servers = 1",
            "[mcp_servers]\ncoreci = \"s3cret\"",
            &deep,
            "a = 1\na = 2",
            "[[mcp_servers]]",
        ] {
            let refused = edit().apply(text).expect_err(text).to_string();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        assert!(edit().apply("a = 1\n\nb = \n").expect_err("refused").to_string().contains("line 3"));
    }
}
