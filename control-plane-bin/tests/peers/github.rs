//! Against Prism with GitHub's own OpenAPI, whose examples speak of one public repository.

use serde_json::json;

use crate::installation::{Installation, peer};

/// Of the form of a fine-grained token. Prism looks at its place only.
const TOKEN: &str = "github_pat_11AAAAAAA0aaaaaaaaaaaa_aaaaaaaaaaaa";

// proves: T-05, T-06, T-07, T-13, T-16, GH-01, GH-04, GH-10, REQ-022
#[tokio::test]
async fn repositories_and_runs_are_read_as_github_describes_them() {
    let control_plane = Installation::start().await;
    let added = control_plane.add("github", &peer("GITHUB_URL"), TOKEN, &[]);
    assert_eq!(added.code, Some(0), "{}", added.said);
    // Runs of a public repository prove nothing about the token.
    assert_eq!(control_plane.json(&["adapter", "list"])[0]["status"], "partial");

    let list = control_plane.call("github.list_repos", &json!({}));
    let repo = &list["repos"][0];
    assert_eq!(
        [&repo["owner"], &repo["name"], &repo["full_name"]],
        ["octocat", "Hello-World", "octocat/Hello-World"]
    );
    assert_eq!(repo["private"], false);
    // The description's own Link header names a second page.
    assert_eq!(list["truncated"], true);

    let octo = json!({"owner": "octo-org", "repo": "octo-repo"});
    let mut filtered = octo.clone();
    filtered["per_page"] = json!(100);
    filtered["status"] = json!("timed_out");
    filtered["branch"] = json!("feature/ü & more");
    for args in [octo, filtered] {
        let list = control_plane.call("github.get_recent_ci_runs", &args);
        assert!(list["total_count"].is_u64(), "{list}");
        let run = &list["runs"][0];
        assert!(run["id"].is_u64() && run["run_number"].is_u64() && run["actor"].is_string(), "{run}");
        assert_eq!(run.get("conclusion"), None, "the example's is null");
    }

    let args = json!({"owner": "octo-org", "repo": "octo-repo", "run_id": 30_433_642_u64});
    let run = control_plane.call("github.get_workflow_run", &args);
    assert!(run["head_sha"].is_string() && run["html_url"].is_string(), "{run}");
}

// proves: AD-02
#[tokio::test]
async fn a_classic_token_is_refused_and_nothing_is_kept() {
    let control_plane = Installation::start().await;
    let kept = control_plane.secrets();
    let classic = "ghp_0123456789abcdefghij0123456789abcdef";
    let refused = control_plane.add("github", &peer("GITHUB_URL"), classic, &[]);
    assert_eq!(refused.code, Some(5));
    assert!(refused.said.contains("fine-grained PAT required"), "{}", refused.said);
    assert_eq!(control_plane.json(&["adapter", "list"]), json!([]));
    assert_eq!(control_plane.secrets(), kept);
}
