//! Against Prism with what a generated client knows of Gitea 1.27. It has no examples, so words are words and numbers are 0.

use serde_json::json;

use crate::installation::{Installation, peer};

// proves: T-08, T-09, T-13
#[tokio::test]
async fn repositories_and_runs_are_read_as_gitea_describes_them() {
    let control_plane = Installation::start().await;
    let token = "0123456789abcdef0123456789abcdef01234567";
    let added = control_plane.add("gitea", &peer("GITEA_URL"), token, &[]);
    assert_eq!(added.code, Some(0), "{}", added.said);
    // A version that is none is no error.
    assert_eq!(added.steps().last().map(String::as_str), Some("version ok"));

    let list = control_plane.call("gitea.list_repos", &json!({}));
    assert!(list["repos"][0]["full_name"].is_string(), "{list}");

    for args in
        [json!({"owner": "acme", "repo": "site"}), json!({"owner": "acme", "repo": ".profile", "limit": 50})]
    {
        let list = control_plane.call("gitea.get_recent_ci_runs", &args);
        assert_eq!(list["source"], "runs", "the newest form is asked for first");
        assert!(list["runs"][0]["head_sha"].is_string(), "{list}");
    }
}
