//! Programs of `scripts/peers/mcp`, in the interpreters of `scripts/peers/setup`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Far more than any of them needs, and less than the whole test has.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where `scripts/peers/setup` put the programs of others.
pub(crate) fn home() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "where the peers are is no setting of the program")]
    let found = std::env::var("CORECI_PEERS_HOME");
    found.expect("CORECI_PEERS_HOME is not set: run scripts/test --peers, which starts the peers").into()
}

/// Runs a program, hands it the task, and reads the one line of JSON that it writes.
pub(crate) async fn perform(interpreter: &str, program: &str, task: &Value) -> Value {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/peers/mcp");
    let mut command = Command::new(home().join(interpreter));
    command.arg(scripts.join(program)).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{interpreter}: {error}"));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(task.to_string().as_bytes()).await.expect("written");
    drop(input);
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{program} does not end")).expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} ended with {}: {said}", output.status);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{program}: no JSON ({error}): {said}"))
}
