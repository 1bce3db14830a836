//! The whole server in this process, with a tenant, keys, and GitHub in front of it.

use control_plane::App;
use control_plane::app::Listeners;
use control_plane::config::{EgressSettings, Settings};
use control_plane::data_dir::DataDir;
use egress::testing::{FakeServer, Reply};
use identity::pg::{NewKey, key_create};
use identity::{ApiKey, Role};
use serde_json::{Value, json};
use tenancy::testing::TestDatabase;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Looks like a fine-grained token, which is the only kind that is taken.
const TOKEN: &str = "github_pat_11AAAAAAA0aaaaaaaaaaaa_aaaaaaaaaaaa";

/// What the fake answers; `scripts/peers/check-fixtures` holds these bodies to GitHub's own description.
pub(crate) const REPOS: &str = include_str!("../../../adapter-github/tests/fixtures/github/repos.json");
pub(crate) const RUNS: &str = include_str!("../../../adapter-github/tests/fixtures/github/runs.json");
const USER: &str = include_str!("../../../adapter-github/tests/fixtures/github/user.json");

pub(crate) fn body(fixture: &str) -> Value {
    serde_json::from_str(fixture).expect("a fixture")
}

/// Lets a fake answer as GitHub does when all is well.
pub(crate) fn healthy_github(github: &FakeServer, repos: Value) {
    github.on("/user", Reply::json(200, body(USER)));
    for repo in repos.as_array().expect("repositories") {
        let name = repo["full_name"].as_str().expect("a name");
        github.on(&format!("/repos/{name}/actions/runs"), Reply::json(200, body(RUNS)));
    }
    github.on("/user/repos", Reply::json(200, repos));
}

pub(crate) struct Product {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
    admin: String,
    /// The key that a model's host has.
    pub(crate) operator: String,
    stop: CancellationToken,
    running: JoinHandle<()>,
    database: TestDatabase,
    _data: tempfile::TempDir,
}

impl Product {
    /// A server that has a GitHub with these repositories.
    pub(crate) async fn with_github(repos: Value) -> (Self, FakeServer) {
        let github = FakeServer::http().await;
        healthy_github(&github, repos);
        let product = Self::start(&[github.address().port()]).await;
        product.add_github("forge", &github.url()).await;
        (product, github)
    }

    /// A server that may reach these ports of this machine in plain HTTP, and the world as every installation may.
    pub(crate) async fn start(loopback_ports: &[u16]) -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let database = TestDatabase::new().await;
        let scratch = tempfile::Builder::new().prefix("coreci-test-").tempdir().expect("a directory");
        let data = DataDir::choose(Some(scratch.path()), None, None).expect("a data directory");
        let any_port = Some("127.0.0.1:0".parse().expect("an address"));
        let settings = Settings {
            listen: any_port,
            internal_listen: any_port,
            egress: EgressSettings {
                allow_http: Some(!loopback_ports.is_empty()),
                allow_loopback: Some(!loopback_ports.is_empty()),
                ports: Some(loopback_ports.iter().copied().chain([443]).collect()),
                ..EgressSettings::default()
            },
            ..Settings::default()
        };
        let config = settings.check().expect("settings that fit together");
        let listeners = Listeners::bind(&config).await.expect("free ports");
        let app = App::build(&config, listeners, &database.connections(), &data).await.expect("a server");

        let tenant = database.create_tenant("acme").await;
        let keys = [("root", Role::Admin), ("model", Role::Operator)].map(|(name, role)| {
            (
                ApiKey::generate().expect("a key"),
                NewKey { name, role, expires_at: None, tools: None, targets: None },
            )
        });
        let tx = database.tenancy().tx(tenant).await.expect("a transaction");
        for (key, new) in &keys {
            key_create(&tx, key, new, None).await.expect("a key");
        }
        tx.commit().await.expect("committed");
        let [admin, operator] = keys.map(|(key, _)| key.reveal().to_owned());

        let url = format!("http://{}", app.bound);
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, url, admin, operator, stop, running, database, _data: scratch }
    }

    /// Configures a fake GitHub, which is checked on the way.
    pub(crate) async fn add_github(&self, name: &str, base_url: &str) {
        self.add_github_with(name, base_url, TOKEN).await;
    }

    /// The same with a token of the caller's.
    pub(crate) async fn add_github_with(&self, name: &str, base_url: &str, token: &str) {
        let body = json!({"type": "github", "name": name, "base_url": base_url, "credential": token});
        let request = self.http.post(format!("{}/api/mcp/adapter", self.url)).bearer_auth(&self.admin);
        let answer = request.json(&body).send().await.expect("an answer");
        let status = answer.status().as_u16();
        assert_eq!(status, 201, "{}", answer.text().await.expect("a text"));
    }

    /// Status and body of what `/mcp` answers to the holder of the operator's key.
    pub(crate) async fn mcp(&self, message: &Value, revision: &str) -> (u16, Value) {
        let request = self.http.post(format!("{}/mcp", self.url)).bearer_auth(&self.operator);
        let request = request
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", revision);
        // Asked for since 2026-07-28; earlier revisions do not know it.
        let request = request.header("mcp-method", message["method"].as_str().expect("a method"));
        let answer = request.json(message).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// What was written down of this type, newest first.
    pub(crate) async fn audited(&self, kind: &str) -> Vec<Value> {
        let url = format!("{}/api/audit?type={kind}", self.url);
        let answer = self.http.get(url).bearer_auth(&self.admin).send().await.expect("an answer");
        let page: Value = answer.json().await.expect("JSON");
        let bodies = page["events"].as_array().expect("events").iter().map(|event| event["body"].clone());
        bodies.collect()
    }

    /// Ends in good order, so that nothing uses the database when it is dropped.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.await.expect("joined");
        drop(self.database);
    }
}
