//! An agent by OpenAI's own SDK: a question, a model that calls a tool, our server, GitHub as Prism plays it, an answer.

use llm_mock::LlmMock;
use mcp_core::tool::catalogue;
use serde_json::{Value, json};

use crate::installation::{Installation, peer};
use crate::program::perform;

const GITHUB_TOKEN: &str = "github_pat_11AAAAAAA0aaaaaaaaaaaa_aaaaaaaaaaaa";
const MODEL_KEY: &str = "sk-test";

/// Asks the question in both ways that the SDK has, which must come to the same.
async fn ask(control_plane: &Installation, prompt: &str) -> (Value, Vec<Value>) {
    let model = LlmMock::new().requiring_key(MODEL_KEY).start().await;
    let url = &control_plane.server.url;
    let mut task = json!({
        "url": format!("{url}/mcp"),
        "key": control_plane.server.key(prompt, "operator"),
        "tools_url": format!("{url}/api/mcp/tools?format=openai"),
        "model_url": model.url(),
        "model_key": MODEL_KEY,
        "prompt": prompt,
        "stream": false,
    });
    let whole = perform("mcp-py1/bin/python", "openai_loop.py", &task).await;
    let requests = model.requests();
    task["stream"] = json!(true);
    assert_eq!(perform("mcp-py1/bin/python", "openai_loop.py", &task).await, whole);
    let nine: Vec<_> = catalogue().iter().map(|tool| tool.name.wire()).collect();
    assert_eq!(whole["offered"], json!(nine));
    (whole, requests)
}

// proves: L-01, L-06
#[tokio::test]
async fn a_conversation_ends_with_the_names_that_github_answered() {
    let control_plane = Installation::start().await;
    let added = control_plane.add("github", &peer("GITHUB_URL"), GITHUB_TOKEN, &[]);
    assert_eq!(added.code, Some(0), "{}", added.said);

    let (report, requests) = ask(&control_plane, "Please list my repos").await;
    let called = json!([{"name": "github__list_repos", "arguments": {}, "isError": false}]);
    assert_eq!(report["called"], called);
    // What the model read is what GitHub answered, and what it says is taken from there.
    let read = requests[1]["messages"][2]["content"].as_str().expect("text");
    let list: Value = serde_json::from_str(read).expect("JSON");
    let names: Vec<_> =
        list["repos"].as_array().expect("repos").iter().map(|repo| &repo["full_name"]).collect();
    assert_eq!(names, ["octocat/Hello-World"]);
    assert_eq!(report["final"], "Your repos are: octocat/Hello-World");

    let (report, _) = ask(&control_plane, "What are the recent runs of octo-org/octo-repo?").await;
    let arguments = json!({"owner": "octo-org", "repo": "octo-repo"});
    let called = json!([{"name": "github__get_recent_ci_runs", "arguments": arguments, "isError": false}]);
    assert_eq!(report["called"], called);
    let run = &control_plane.call("github.get_recent_ci_runs", &arguments)["runs"][0]["id"];
    let answer = report["final"].as_str().expect("text");
    assert!(answer.contains(&format!("(id {run})")), "{answer}");

    let audited = control_plane.events("adapter.capability_invoked").await;
    assert!(audited.iter().any(|event| event["body"]["tool"] == "github.list_repos"), "{audited:?}");
}

// proves: L-06
#[tokio::test]
async fn a_tool_that_fails_is_told_to_the_model_and_the_conversation_still_ends() {
    let control_plane = Installation::start().await;
    let (report, requests) = ask(&control_plane, "Please list my repos").await;
    assert_eq!(report["called"][0]["isError"], true);
    let read = requests[1]["messages"][2]["content"].as_str().expect("text");
    assert!(read.starts_with("ERROR: "), "{read}");
    let answer = report["final"].as_str().expect("text");
    assert!(answer.starts_with("The tool failed:") && answer.contains("target_not_found"), "{answer}");
}
