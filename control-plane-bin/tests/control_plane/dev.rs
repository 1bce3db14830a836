//! `dev --once`: everything from nothing, and again.

use serde_json::Value;

use crate::server::{control_plane, scratch};

fn once(data: &std::path::Path) -> Value {
    let ports = ["--listen", "127.0.0.1:0", "--internal-listen", "127.0.0.1:0"];
    let output =
        control_plane(data).args(["dev", "--once", "-o", "json"]).args(ports).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // One object, and nothing else.
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

// proves: REQ-021, H-20, S-06
#[test]
fn one_command_brings_up_everything_and_a_real_uptime_travels() {
    let scratch = scratch();
    let first = once(scratch.path());
    assert_eq!(first["tool"], "ssh.run_whitelisted_command");
    let output = &first["result"]["structuredContent"];
    assert!(output["stdout"].as_str().expect("text").contains("load average"), "{first}");
    assert_eq!(output["exitCode"], 0);
    assert_eq!(first["result"]["isError"], false);
    assert_eq!(first["audit"]["verified"], true);
    assert_eq!(first["audit"]["headHash"].as_str().expect("a hash").len(), 64);
    assert!(first["timings"]["startMs"].is_u64() && first["timings"]["callMs"].is_u64());
    assert!(!scratch.path().join("dev.json").exists(), "it is not up any more");

    let again = once(scratch.path());
    assert!(again["audit"]["rows"].as_u64() > first["audit"]["rows"].as_u64(), "the chain goes on");
}
