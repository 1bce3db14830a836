//! A control plane in a process of its own, on a data directory of its own.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory that is gone when the test is. Below the system's directory for temporary files, which the user that
/// Postgres runs as can enter.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("coreci-test-").tempdir().expect("a directory")
}

/// The binary with a data directory, and an environment that says nothing else.
pub(crate) fn control_plane(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_control-plane"));
    for name in [
        "DATABASE_URL",
        "CORECI_AUDIT_DATABASE_URL",
        "CORECI_URL",
        "CORECI_KEY_FILE",
        "CORECI_API_KEY",
        "CORECI_CA_FILE",
    ] {
        command.env_remove(name);
    }
    command.arg("--data-dir").arg(data).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(data: &Path, args: &[&str]) -> Output {
    control_plane(data).args(args).output().expect("the binary runs")
}

/// Runs a command that must succeed, and reads its JSON.
pub(crate) fn run_json(data: &Path, args: &[&str]) -> Value {
    let output = run(data, &[args, &["-o", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    pub(crate) url: String,
}

impl Server {
    /// Starts `serve` on free ports and waits until it is ready.
    pub(crate) async fn start(data: &Path) -> Self {
        let mut command = control_plane(data);
        command.args(["serve", "--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"]);
        Self::spawn(command, data).await
    }

    /// The same with a filter for what is logged.
    pub(crate) async fn start_logging(data: &Path, filter: &str) -> Self {
        let mut command = control_plane(data);
        command.args(["serve", "--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"]);
        command.args(["--log", filter]);
        Self::spawn(command, data).await
    }

    /// Starts `serve` on the port of an earlier one, so that agents find it again.
    pub(crate) async fn start_at(data: &Path, url: &str) -> Self {
        let address = url.trim_start_matches("http://");
        let mut command = control_plane(data);
        command.args(["serve", "--listen", address, "--internal-listen", "127.0.0.1:0"]);
        Self::spawn(command, data).await
    }

    async fn spawn(mut command: Command, data: &Path) -> Self {
        let log = data.join("server.log");
        std::fs::create_dir_all(data).expect("a directory");
        let log_file = std::fs::File::create(&log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(log_file).spawn().expect("the binary runs");
        let mut server = Self { child, data: data.to_owned(), url: String::new() };
        let started = Instant::now();
        while server.url.is_empty() {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "not ready: {text}");
            if let Ok(Some(status)) = server.child.try_wait() {
                panic!("ended with {status}: {text}");
            }
            let line = text.lines().find_map(|line| line.strip_prefix("serving on "));
            if let Some(line) = line.filter(|line| line.contains("public URL")) {
                server.url = line.split(',').next().expect("an address").to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }

    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        let file = std::fs::File::open(self.data.join("server.log"));
        file.and_then(|mut file| file.read_to_string(&mut text)).expect("a log");
        text
    }

    /// A key of this role in the tenant `acme`, which is made if need be.
    pub(crate) fn key(&self, name: &str, role: &str) -> String {
        let tenants = run_json(&self.data, &["tenant", "list"]);
        if tenants.as_array().expect("a list").is_empty() {
            run_json(&self.data, &["tenant", "create", "acme"]);
        }
        let made = run_json(&self.data, &["key", "create", "--name", name, "--role", role]);
        made["key"].as_str().expect("a key").to_owned()
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// SIGTERM; answers with the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.ask_to_stop();
        self.child.wait().expect("reaped").code()
    }

    pub(crate) fn ask_to_stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("reaped").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone after `kill` and `terminate`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with a key.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Client {
    pub(crate) fn new(url: &str, key: &str) -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, url: url.to_owned(), key: key.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        request.send().await.expect("an answer")
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> reqwest::Response {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).json(&body);
        request.send().await.expect("an answer")
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        self.get(path).await.json().await.expect("JSON")
    }

    /// Status and code of a call that waits.
    pub(crate) async fn call(&self, command: &str) -> (u16, Value) {
        let body = serde_json::json!({
            "tool": "ssh.run_whitelisted_command", "args": { "command": command },
        });
        let answer = self.post("/api/mcp/invoke?wait=true", body).await;
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

/// Waits until `done`.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < PATIENCE, "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
