//! A control plane with one tenant and its admin, asked through the command line as an admin asks it.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::schema;
use crate::server::{Client, Server, run, scratch};

/// What the peers are, from the environment that `scripts/peers/with-peers` makes. The same environment lets the control
/// plane reach them.
pub(crate) fn peer(name: &str) -> String {
    let name = format!("CORECI_PEER_{name}");
    #[expect(clippy::disallowed_methods, reason = "where the peers are is no setting of the program")]
    let found = std::env::var(&name);
    found.unwrap_or_else(|_| panic!("{name} is not set: run scripts/test --peers, which starts the peers"))
}

pub(crate) struct Installation {
    pub(crate) server: Server,
    pub(crate) admin: Client,
    data: PathBuf,
    files: tempfile::TempDir,
}

/// What `adapter add` came to.
pub(crate) struct Added {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    /// What it said on standard error.
    pub(crate) said: String,
}

impl Added {
    /// The steps as `name status`.
    pub(crate) fn steps(&self) -> Vec<String> {
        let steps = self.report["steps"].as_array().expect("steps");
        let word = |step: &Value, key: &str| step[key].as_str().expect("a word").to_owned();
        steps.iter().map(|step| format!("{} {}", word(step, "step"), word(step, "status"))).collect()
    }
}

impl Installation {
    pub(crate) async fn start() -> Self {
        // Asked for first, so that what is missing is said at once.
        peer("PVE_URL");
        let files = scratch();
        let data = files.path().join("server");
        let server = Server::start(&data).await;
        let key = server.key("root", "admin");
        let admin = Client::new(&server.url, &key);
        let installation = Self { server, admin, data, files };
        installation.file("key", &key);
        installation
    }

    /// `adapter add`, with the credential in a file.
    pub(crate) fn add(&self, kind: &str, url: &str, credential: &str, more: &[&str]) -> Added {
        let credential = self.file("credential", credential);
        let given =
            ["adapter", "add", "--type", kind, "--name", kind, "--base-url", url, "--credential-file"];
        let output = self.run(&[&given[..], &[&credential], more].concat());
        Added {
            code: output.status.code(),
            report: json_of(&output),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `tools call` that must succeed, with a result that fits the tool's own output schema.
    pub(crate) fn call(&self, tool: &str, args: &Value) -> Value {
        let output = self.run(&["tools", "call", tool, &args.to_string()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {args}: {said}");
        let result = json_of(&output)["structuredContent"].take();
        let tools = self.json(&["tools", "list"]);
        let listed = tools.as_array().expect("a list").iter().find(|listed| listed["name"] == tool);
        schema::assert_fits(&listed.expect("a listed tool")["outputSchema"], &result, tool);
        result
    }

    /// `tools call` that must fail: its exit code and what it said.
    pub(crate) fn refused(&self, tool: &str, args: &Value) -> (Option<i32>, String) {
        let output = self.run(&["tools", "call", tool, &args.to_string()]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        json_of(&output)
    }

    /// All files of the secret store, by name.
    pub(crate) fn secrets(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![self.data.join("secrets")];
        while let Some(path) = waiting.pop() {
            match std::fs::read_dir(&path) {
                Ok(inside) => waiting.extend(inside.map(|entry| entry.expect("an entry").path())),
                Err(_) => found.push(path),
            }
        }
        found.sort();
        found
    }

    /// Audit events of one type, newest first.
    pub(crate) async fn events(&self, event_type: &str) -> Vec<Value> {
        let mut page = self.admin.json(&format!("/api/audit?type={event_type}")).await;
        serde_json::from_value(page["events"].take()).expect("a list")
    }

    fn run(&self, args: &[&str]) -> Output {
        let key = path(self.files.path(), "key");
        run(&self.data, &[args, &["-o", "json", "--url", &self.server.url, "--key-file", &key]].concat())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = path(self.files.path(), name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("text").to_owned()
}

fn json_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {said}"))
}
