//! What the model says: a pure function of the request.

use serde_json::{Map, Value, json};

use crate::request::{ChatRequest, Role, ToolChoice, ToolMode};

/// What is said when nothing better is known.
const FALLBACK: &str = "I can list repos and show the recent runs of a repo, when a tool for it is offered.";
/// How much of an unknown result is repeated.
const EXCERPT_CHARS: usize = 200;

/// An answer of the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    /// At least one.
    Calls(Vec<Call>),
}

/// A call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// As it was offered, unless a script says otherwise.
    pub(crate) name: String,
    /// The text of a JSON object, likewise.
    pub(crate) arguments: String,
}

/// Chooses the answer.
pub(crate) fn decide(request: &ChatRequest) -> Reply {
    match request.messages.last() {
        Some(message) if message.role == Role::Tool => Reply::Text(sum_up(&message.text())),
        Some(message) if message.role == Role::User => answer(request, &message.text()),
        _ => fallback(),
    }
}

fn answer(request: &ChatRequest, text: &str) -> Reply {
    match &request.tool_choice {
        Some(ToolChoice::Mode(ToolMode::None)) => fallback(),
        Some(ToolChoice::Named { function }) => call(&function.name, &Map::new()),
        Some(ToolChoice::Mode(ToolMode::Required)) => wanted(request, text)
            .or_else(|| request.tools().first().map(|tool| call(&tool.function.name, &Map::new())))
            .unwrap_or_else(fallback),
        Some(ToolChoice::Mode(ToolMode::Auto)) | None => wanted(request, text).unwrap_or_else(fallback),
    }
}

/// The call that the text asks for, if its tool is offered.
fn wanted(request: &ChatRequest, text: &str) -> Option<Reply> {
    let text_lower = text.to_lowercase();
    let mentions = |one: &str, other: &str| text_lower.contains(one) && text_lower.contains(other);
    if mentions("list", "repo") {
        Some(call(offered(request, "list_repos")?, &Map::new()))
    } else if mentions("recent", "run") {
        Some(call(offered(request, "get_recent_ci_runs")?, &repo_arguments(text)))
    } else {
        None
    }
}

fn call(name: &str, arguments: &Map<String, Value>) -> Reply {
    Reply::Calls(vec![Call { name: name.to_owned(), arguments: json!(arguments).to_string() }])
}

fn fallback() -> Reply {
    Reply::Text(FALLBACK.to_owned())
}

/// The offered name of an adapter's tool, GitHub's if there is a choice.
fn offered<'a>(request: &'a ChatRequest, tool: &str) -> Option<&'a str> {
    let is_tool_of = |name: &str, wanted_adapter: Option<&str>| {
        let dotted = name.replace("__", ".");
        let mut segments = dotted.rsplit('.');
        let found = segments.next() == Some(tool);
        found && segments.next().is_some_and(|adapter| wanted_adapter.is_none_or(|wanted| adapter == wanted))
    };
    let mut names = request.tools().iter().map(|tool| tool.function.name.as_str());
    let any = names.clone().find(|name| is_tool_of(name, None));
    names.find(|name| is_tool_of(name, Some("github"))).or(any)
}

/// The first `owner/repo` of a text as arguments; none at all if there is none, since guessing would be inventing.
fn repo_arguments(text: &str) -> Map<String, Value> {
    let is_name_char = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_name_char);
    let words =
        text.split_whitespace().map(|word| word.trim_matches(|char| ".,;:!?\"'`()[]<>".contains(char)));
    let repo =
        words.filter_map(|word| word.split_once('/')).find(|(owner, name)| is_name(owner) && is_name(name));
    let fields = repo.map(|(owner, name)| [("owner", owner), ("repo", name)]);
    fields.into_iter().flatten().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

/// A sentence made of a tool's result and of nothing else.
fn sum_up(content: &str) -> String {
    if let Some(failure) = content.strip_prefix("ERROR: ") {
        return format!("The tool failed: {}", failure.lines().next().unwrap_or_default());
    }
    let result: Value = serde_json::from_str(content).unwrap_or_default();
    let repos = list(&result["repos"], repo_name).or_else(|| list(&result["repositories"], repo_name));
    match (repos, list(&result["runs"], run_name)) {
        (Some(repos), _) if repos.is_empty() => "You have no repos.".to_owned(),
        (Some(repos), _) => format!("Your repos are: {}", repos.join(", ")),
        (None, Some(runs)) if runs.is_empty() => "There are no recent runs.".to_owned(),
        (None, Some(runs)) => format!("The recent runs are: {}", runs.join("; ")),
        (None, None) => content.chars().take(EXCERPT_CHARS).collect(),
    }
}

/// The names of a list's items; nothing unless every item has one, or the answer would be about fewer than there are.
fn list(items: &Value, name: fn(&Value) -> Option<String>) -> Option<Vec<String>> {
    items.as_array()?.iter().map(name).collect()
}

fn repo_name(repo: &Value) -> Option<String> {
    repo["full_name"].as_str().or_else(|| repo["name"].as_str()).map(str::to_owned)
}

/// Such as `CI #42 (id 7001) on main: success`, without what the run does not say.
fn run_name(run: &Value) -> Option<String> {
    let named = run["name"].as_str().map(str::to_owned);
    let number = run["run_number"].as_u64().map(|number| format!("#{number}"));
    let id = run["id"].as_u64().map(|id| format!("(id {id})"));
    let branch = run["head_branch"].as_str().map(|branch| format!("on {branch}"));
    let words: Vec<_> = [named, number, id, branch].into_iter().flatten().collect();
    let state = run["conclusion"].as_str().or_else(|| run["status"].as_str());
    let outcome = state.map(|state| format!(": {state}")).unwrap_or_default();
    (!words.is_empty()).then(|| words.join(" ") + &outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = [
        "proxmox__list_vms",
        "gitea__list_repos",
        "github__list_repos",
        "gitea__get_recent_ci_runs",
        "github__get_recent_ci_runs",
    ];

    fn ask_with(names: &[&str], content: Value, tool_choice: Value) -> Reply {
        let tools: Vec<_> =
            names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        if !tools.is_empty() {
            body["tools"] = json!(tools);
            body["tool_choice"] = tool_choice;
        }
        decide(&ChatRequest::parse(&body).expect("a valid request"))
    }

    fn ask(text: &str) -> Reply {
        ask_with(&NAMES, json!(text), Value::Null)
    }

    fn told(content: &str) -> String {
        let messages = json!([
            {"role": "assistant", "tool_calls": [{"id": "call_1"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": content},
        ]);
        let request = ChatRequest::parse(&json!({"model": "m", "messages": messages}));
        match decide(&request.expect("a valid request")) {
            Reply::Text(text) => text,
            Reply::Calls(calls) => panic!("called {calls:?}"),
        }
    }

    fn called(name: &str, arguments: &str) -> Reply {
        Reply::Calls(vec![Call { name: name.to_owned(), arguments: arguments.to_owned() }])
    }

    // proves: L-02
    #[test]
    fn what_the_user_mentions_chooses_the_tool_and_github_comes_first() {
        let repos = called("github__list_repos", "{}");
        assert_eq!(ask("Please LIST my Repos"), repos);
        let parts = json!([{"type": "text", "text": "list my"}, {"type": "text", "text": "repos"}]);
        assert_eq!(ask_with(&NAMES, parts, json!("auto")), repos);
        assert_eq!(
            ask_with(&NAMES[..2], json!("list repos"), Value::Null),
            called("gitea__list_repos", "{}")
        );

        let runs = |arguments| called("github__get_recent_ci_runs", arguments);
        assert_eq!(ask("any recent runs?"), runs("{}"));
        assert_eq!(
            ask("Recent runs of `Acme/api.v2`, see https://x/y"),
            runs(r#"{"owner":"Acme","repo":"api.v2"}"#)
        );
    }

    // proves: L-04
    #[test]
    fn without_a_known_question_or_its_tool_the_answer_is_always_the_same() {
        assert_eq!(ask("tell me a joke"), fallback());
        assert_eq!(ask("tell me a joke"), ask("and another one"));
        assert_eq!(ask_with(&[], json!("list my repos"), Value::Null), fallback());
        assert_eq!(ask_with(&["list_repos"], json!("list my repos"), Value::Null), fallback());
        assert_eq!(ask_with(&NAMES, json!("list my repos"), json!("none")), fallback());
    }

    #[test]
    fn a_forced_call_is_made_whatever_the_text_says() {
        let named = json!({"type": "function", "function": {"name": "gitea__list_repos"}});
        assert_eq!(ask_with(&NAMES, json!("hi"), named), called("gitea__list_repos", "{}"));
        assert_eq!(ask_with(&NAMES, json!("hi"), json!("required")), called("proxmox__list_vms", "{}"));
    }

    // proves: L-03
    #[test]
    fn a_result_is_summed_up_from_its_own_words() {
        let repos = r#"{"repos": [{"name": "a", "full_name": "o/a"}, {"name": "b"}], "truncated": false}"#;
        assert_eq!(told(repos), "Your repos are: o/a, b");
        assert_eq!(told(r#"{"repositories": [{"name": "c"}]}"#), "Your repos are: c");
        assert_eq!(told(r#"{"repos": []}"#), "You have no repos.");

        let run = r#"{"id": 7001, "run_number": 42, "name": "CI", "head_branch": "main", "status": "completed",
            "conclusion": "success"}"#;
        let runs = format!(r#"{{"total_count": 2, "runs": [{run}, {{"id": 7002, "status": "queued"}}]}}"#);
        assert_eq!(told(&runs), "The recent runs are: CI #42 (id 7001) on main: success; (id 7002): queued");
        assert_eq!(told(r#"{"runs": []}"#), "There are no recent runs.");

        assert_eq!(told("ERROR: no such repository\nmore"), "The tool failed: no such repository");
        assert_eq!(told(r#"{"repos": [{"id": 1}]}"#), r#"{"repos": [{"id": 1}]}"#);
        assert_eq!(told(&"é".repeat(300)), "é".repeat(200));
    }
}
