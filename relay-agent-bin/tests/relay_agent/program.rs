//! The program as people start it: exit codes, standard output, a hostile environment, no open port.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use mcp_core::relay::{CommandOutcome, close};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::control_plane::{AGENT, ControlPlane, TARGET, soon};

fn program(control_plane: &ControlPlane, command: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_relay-agent"));
    program.arg(command).arg("--state-dir").arg(control_plane.state_dir());
    if rustix::process::geteuid().is_root() && matches!(command, "run" | "enroll") {
        program.arg("--allow-root");
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    program
}

async fn output(mut program: Command, input: &str) -> Output {
    let mut child = program.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    soon(child.wait_with_output()).await.unwrap()
}

async fn stop(child: Child) -> Output {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    soon(child.wait_with_output()).await.unwrap()
}

#[tokio::test]
async fn enrolling_prints_the_ids_and_a_refused_token_is_exit_code_3() {
    for (status, code) in [("201 Created", 0), ("401 Unauthorized", 3), ("500 Oops", 1)] {
        let control_plane = ControlPlane::start().await;
        let mut enroll = program(&control_plane, "enroll");
        enroll.arg("--url").arg(control_plane.url()).arg("--token-stdin");
        let answer = json!({"agentId": AGENT, "targetId": TARGET}).to_string();
        let (output, (_, body)) =
            tokio::join!(output(enroll, "t0ken\n"), control_plane.answer_http(status, &answer));
        assert!(body.contains(r#""token":"t0ken""#));
        assert_eq!(output.status.code(), Some(code), "{status}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        if code == 0 {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap()["agentId"], json!(AGENT));
        } else {
            assert_eq!(printed, "");
        }
        assert!(!String::from_utf8_lossy(&output.stderr).contains("t0ken"));
    }
}

#[tokio::test]
async fn wrong_usage_is_exit_code_2_and_a_missing_agent_1() {
    let control_plane = ControlPlane::start().await;
    let mut plaintext = program(&control_plane, "enroll");
    plaintext.args(["--url", "http://cp.example", "--token-stdin"]);
    assert_eq!(output(plaintext, "").await.status.code(), Some(2));
    assert_eq!(output(program(&control_plane, "run"), "").await.status.code(), Some(1));
    assert_eq!(output(program(&control_plane, "status"), "").await.status.code(), Some(1));
    assert_eq!(output(program(&control_plane, "doctor"), "").await.status.code(), Some(1));
}

// proves: C-G21
#[tokio::test]
async fn root_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let control_plane = ControlPlane::with_agent().await;
    let mut run = Command::new(env!("CARGO_BIN_EXE_relay-agent"));
    run.args(["run", "--state-dir"]).arg(control_plane.state_dir());
    run.stdin(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = output(run, "").await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--allow-root"));
}

// proves: C-G15, H-19
#[tokio::test]
async fn a_hostile_environment_changes_nothing_and_no_port_is_open() {
    let control_plane = ControlPlane::with_agent().await;
    let trap = control_plane.path().join("uptime");
    std::fs::write(&trap, "#!/bin/sh\necho trapped\n").unwrap();
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = program(&control_plane, "run");
    run.env("PATH", control_plane.path())
        .env("LD_PRELOAD", "/nonexistent/evil.so")
        .env("SYSTEMD_PAGER", "sh")
        .env("SYSTEMD_SSH", &trap)
        .env("LESSOPEN", "|sh")
        .current_dir(control_plane.path());
    let child = run.spawn().unwrap();
    let mut link = control_plane.accept_live().await;

    let CommandOutcome::Ran(ran) = link.call(&control_plane, "uptime").await else {
        panic!("it did not run")
    };
    assert!(ran.stdout.contains("load average"), "{ran:?}");
    // The loader would complain about the preloaded library here.
    assert_eq!(ran.stderr, "");

    let (inodes, listening) = sockets(child.id().unwrap());
    assert!(!inodes.is_empty(), "the link is a socket");
    assert!(inodes.is_disjoint(&listening), "the agent listens");

    let (stopped, code) = tokio::join!(stop(child), link.closed());
    assert_eq!((stopped.status.code(), code), (Some(0), Some(1001)));
    assert_eq!(stopped.stdout, b"");
    let status = output(program(&control_plane, "status"), "").await;
    assert_eq!(status.status.code(), Some(1));
    assert!(String::from_utf8(status.stdout).unwrap().contains(r#""state": "stopped""#));
}

#[tokio::test]
async fn the_doctor_looks_at_everything() {
    let control_plane = ControlPlane::with_agent().await;
    let (healthy, (head, _)) = tokio::join!(output(program(&control_plane, "doctor"), ""), async {
        let asked = control_plane.answer_http("200 OK", "ok").await;
        // The key is proven on a link that is never registered.
        let mut link = control_plane.accept().await;
        assert_eq!((link.closed_by_us(&control_plane).await, link.facts), (Some(close::PROTOCOL), None));
        asked
    });
    assert!(head.starts_with("GET /livez HTTP/1.1\r\n"), "{head}");
    let text = String::from_utf8(healthy.stdout).unwrap();
    for check in [
        "state directory",
        "whitelist.json",
        "uptime",
        "systemctl",
        "identity",
        "name lookup",
        "connection",
        "control plane",
        "authentication",
    ] {
        assert!(text.lines().any(|line| line.contains(&format!("{check}: "))), "{check}: {text}");
    }
    assert!(text.contains("ok     control plane: http://127.0.0.1:"), "{text}");

    let key = control_plane.state_dir().join("agent.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(control_plane.state_dir().join("whitelist.json"), "{}").unwrap();
    let sick = output(program(&control_plane, "doctor"), "").await;
    assert_eq!(sick.status.code(), Some(1));
    let text = String::from_utf8(sick.stdout).unwrap();
    assert!(text.contains("FAULT  whitelist.json: ") && text.contains("FAULT  identity: "), "{text}");
    assert!(text.contains("set it to 0600"), "{text}");
}

#[tokio::test]
async fn the_doctor_says_which_step_of_the_way_fails() {
    let fault = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("FAULT  "));
        lines.map(|line| line.split_once(':').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    // A control plane that does not know the key.
    let mut control_plane = ControlPlane::with_agent().await;
    control_plane.record.public_key = [9; 32];
    let (sick, ()) = tokio::join!(output(program(&control_plane, "doctor"), ""), async {
        control_plane.answer_http("200 OK", "ok").await;
        let mut link = control_plane.accept().await;
        assert_eq!(link.closed_by_us(&control_plane).await, Some(close::UNAUTHORIZED));
    });
    let text = String::from_utf8(sick.stdout).unwrap();
    assert!(fault(&text).ends_with(&["authentication".to_owned()]), "{text}");

    // Another server.
    let (sick, _) = tokio::join!(
        output(program(&control_plane, "doctor"), ""),
        control_plane.answer_http("404 Not Found", "who?"),
    );
    let text = String::from_utf8(sick.stdout).unwrap();
    assert!(fault(&text).ends_with(&["control plane".to_owned()]), "{text}");

    // Other URLs, which the agent's record is made to name.
    let record = control_plane.state_dir().join("agent.json");
    let plaintext = control_plane.url().replace("http://", "https://");
    for (url, proxy, step) in [
        ("https://no-such-host.invalid", None, "name lookup"),
        ("https://192.0.2.1", Some("http://127.0.0.1:1"), "proxy"),
        ("http://127.0.0.1:1", None, "connection"),
        (plaintext.as_str(), None, "TLS"),
    ] {
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
        json["url"] = url.into();
        // So that it does not matter whether this machine trusts any authority.
        json["caSha256"] = "00".repeat(32).into();
        std::fs::write(&record, json.to_string()).unwrap();
        let mut doctor = program(&control_plane, "doctor");
        doctor.args(proxy.map(|proxy| format!("--proxy={proxy}")));
        let answer = async {
            // Whoever expects TLS gets something else.
            if step == "TLS" {
                control_plane.drop_one().await;
            }
        };
        let (sick, ()) = tokio::join!(output(doctor, ""), answer);
        let text = String::from_utf8(sick.stdout).unwrap();
        assert!(fault(&text).ends_with(&[step.to_owned()]), "{step}: {text}");
    }
}

/// Socket inodes of a process, and those of all listening TCP and bound UDP sockets.
fn sockets(pid: u32) -> (BTreeSet<String>, BTreeSet<String>) {
    let own = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| {
            let link = std::fs::read_link(fd.ok()?.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut listening = BTreeSet::new();
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields.get(3) == Some(&state) {
                listening.extend(fields.get(9).map(|inode| (*inode).to_owned()));
            }
        }
    }
    (own, listening)
}
