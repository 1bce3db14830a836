//! Behaviour of the server over a real socket.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use llm_mock::{LlmMock, Running};
use serde_json::{Value, json};

fn client() -> reqwest::Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Posts a body to the chat route, and returns the status and the text of the answer.
async fn post(model: &Running, body: impl Into<reqwest::Body>) -> (u16, String) {
    let sent = client().post(format!("{}/chat/completions", model.url())).body(body).send().await;
    let answer = sent.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

async fn chat(model: &Running, body: &Value) -> Value {
    let (status, text) = post(model, body.to_string()).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

async fn refusal(model: &Running, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let (status, text) = post(model, body).await;
    let mut error: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(error["error"]["type"], "invalid_request_error");
    (status, error["error"].take())
}

/// The chunks of a stream, whose end must be marked.
async fn stream(model: &Running, body: &Value) -> Vec<Value> {
    let (status, text) = post(model, body.to_string()).await;
    assert_eq!(status, 200, "{text}");
    let events = text.strip_suffix("data: [DONE]\n\n").expect("the end of the stream");
    let data = events.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").expect("an event"));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

fn question(text: &str) -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    json!({
        "model": "any",
        "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": text}],
        "tools": [tool("github__list_repos"), tool("github__get_recent_ci_runs")],
    })
}

// proves: L-01, L-02, L-03
#[tokio::test]
async fn a_conversation_with_a_tool_ends_in_a_text_that_is_grounded() {
    let model = LlmMock::new().start().await;
    let mut body = question("list my repos");

    let first = chat(&model, &body).await;
    let message = &first["choices"][0]["message"];
    let function = json!({"name": "github__list_repos", "arguments": "{}"});
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(message["tool_calls"], json!([{"id": "call_1", "type": "function", "function": function}]));
    assert_eq!(first["usage"], json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}));

    let result = json!({"repos": [{"full_name": "acme/api"}, {"full_name": "acme/web"}]}).to_string();
    let messages = body["messages"].as_array_mut().expect("messages");
    messages.push(message.clone());
    messages.push(json!({"role": "tool", "tool_call_id": "call_1", "content": result}));
    let second = chat(&model, &body).await;
    assert_eq!(second["choices"][0]["message"]["content"], "Your repos are: acme/api, acme/web");
    assert_eq!(second["choices"][0]["finish_reason"], "stop");
    assert_eq!(model.requests(), [question("list my repos"), body]);
}

// proves: L-04
#[tokio::test]
async fn the_same_question_gets_the_same_bytes() {
    let model = LlmMock::new().start().await;
    for text in ["tell me a joke", "list my repos"] {
        let body = question(text).to_string();
        assert_eq!(post(&model, body.clone()).await, post(&model, body).await);
    }
}

// proves: L-01
#[tokio::test]
async fn a_streamed_text_comes_in_pieces_and_ends_with_its_usage() {
    let model = LlmMock::new().start().await;
    let mut body = question("tell me a joke");
    let whole = chat(&model, &body).await;
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});

    let chunks = stream(&model, &body).await;
    let [first, pieces @ .., finish, usage] = &chunks[..] else { panic!("too few chunks") };
    assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
    let text: String =
        pieces.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert!(pieces.len() > 3);
    assert_eq!(text, whole["choices"][0]["message"]["content"]);
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!((&usage["choices"], &usage["usage"]), (&json!([]), &whole["usage"]));
}

// proves: L-01, L-02
#[tokio::test]
async fn a_streamed_call_opens_with_its_name_and_then_adds_arguments() {
    let model = LlmMock::new().start().await;
    let mut body = question("recent runs of acme/api");
    body["stream"] = json!(true);

    let chunks = stream(&model, &body).await;
    let [role, opening, pieces @ .., finish] = &chunks[..] else { panic!("too few chunks") };
    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
    let function = json!({"name": "github__get_recent_ci_runs", "arguments": ""});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    assert_eq!(opening["choices"][0]["delta"]["tool_calls"], json!([call]));
    let piece = |chunk: &Value| {
        chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
    };
    let arguments: String = pieces.iter().map(|chunk| piece(chunk).expect("a piece")).collect();
    assert!(pieces.len() > 1);
    assert_eq!(arguments, r#"{"owner":"acme","repo":"api"}"#);
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
}

/// The calls of an answer, put together again when they came in pieces.
fn calls(chunks: &[Value]) -> Vec<[String; 3]> {
    let mut calls: Vec<[String; 3]> = Vec::new();
    for delta in chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0)) {
        let index = usize::try_from(delta["index"].as_u64().expect("an index")).expect("small");
        calls.resize_with(calls.len().max(index + 1), Default::default);
        for (part, text) in [&delta["id"], &delta["function"]["name"], &delta["function"]["arguments"]]
            .into_iter()
            .enumerate()
        {
            calls[index][part] += text.as_str().unwrap_or_default();
        }
    }
    calls
}

#[tokio::test]
async fn a_script_is_followed_turn_by_turn_whatever_it_says_and_then_the_answers_are_as_usual() {
    let turn = vec![("github__delete_repo", "{"), ("github__list_repos", "{\"a\": 1}")];
    let model = LlmMock::new().calling([turn, vec![("github__list_repos", "{}")]]).start().await;
    let mut body = question("tell me a joke");
    let text = |text: &str| text.to_owned();

    body["stream"] = json!(true);
    let first = [text("call_1"), text("github__delete_repo"), text("{")];
    let second = [text("call_2"), text("github__list_repos"), text("{\"a\": 1}")];
    assert_eq!(calls(&stream(&model, &body).await), [first, second]);

    body["stream"] = json!(false);
    for (turn, ids) in [(1, &["call_1", "call_2"][..]), (2, &["call_3"][..])] {
        let answer = chat(&model, &body).await;
        let message = &answer["choices"][0]["message"];
        let made = message["tool_calls"].as_array().expect("calls");
        assert_eq!(made.iter().map(|call| &call["id"]).collect::<Vec<_>>(), ids, "turn {turn}");
        let messages = body["messages"].as_array_mut().expect("messages");
        messages.push(message.clone());
        messages.extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "done"})));
    }
    let last = chat(&model, &body).await;
    assert_eq!(last["choices"][0]["message"]["content"], "done");
}

#[tokio::test]
async fn bad_bodies_are_refused_in_the_shape_of_the_real_service() {
    let model = LlmMock::new().start().await;

    let mut dotted = question("list my repos");
    dotted["tools"][0]["function"]["name"] = json!("github.list_repos");
    let (status, error) = refusal(&model, dotted.to_string()).await;
    assert_eq!((status, &error["param"]), (400, &json!("tools[0].function.name")));
    assert_eq!(error["code"], "invalid_value");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("^[a-zA-Z0-9_-]{1,64}$")));

    assert_eq!(refusal(&model, "{").await.0, 400);
    let unnamed = json!({"messages": [{"role": "user", "content": "hi"}]}).to_string();
    let (status, error) = refusal(&model, unnamed).await;
    assert_eq!((status, &error["param"]), (400, &json!("model")));
    assert_eq!(refusal(&model, vec![b' '; 4 * 1024 * 1024 + 1]).await.0, 413);
}

#[tokio::test]
async fn a_required_key_is_required_and_unknown_routes_are_not_found() {
    let model = LlmMock::new().requiring_key("right").start().await;
    let (status, error) = refusal(&model, question("hi").to_string()).await;
    assert_eq!((status, &error["code"]), (401, &json!("invalid_api_key")));

    let get = async |path: &str, key: &str| {
        let sent = client().get(format!("{}{path}", model.url())).bearer_auth(key).send().await;
        let answer = sent.expect("an answer");
        (answer.status().as_u16(), answer.json::<Value>().await.expect("JSON"))
    };
    assert_eq!(get("/models", "wrong").await.0, 401);
    let (status, models) = get("/models", "right").await;
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("llm-mock")));
    for path in ["/embeddings", "/chat/completions"] {
        let (status, error) = get(path, "right").await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("unknown_url")));
    }
    assert_eq!(model.requests(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let model = LlmMock::new().start().await;
    let (url, client) = (format!("{}/models", model.url()), client());
    // This leaves a connection in the client's pool, which must not outlive the server either.
    client.get(&url).send().await.expect("an answer").bytes().await.expect("a body");
    drop(model);
    client.get(&url).send().await.expect_err("nobody listens");
}

#[tokio::test]
async fn nothing_is_served_beyond_loopback() {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a free port");
    LlmMock::new().serve(listener).await.expect_err("every machine could reach it");

    let program = env!("CARGO_BIN_EXE_llm-mock");
    let refused = Command::new(program).args(["--listen", "0.0.0.0:0"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
}

#[tokio::test]
async fn the_program_says_where_it_listens() {
    let program = env!("CARGO_BIN_EXE_llm-mock");
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line);

    let url = line.trim_end().strip_prefix("listening on ").map(|base| format!("{base}/models"));
    let answer = client().get(url.unwrap_or_default()).send().await;
    // Before any assertion, so that a failed one leaves no process behind.
    child.kill().and_then(|()| child.wait()).expect("it stops");
    read.expect("a line");
    assert_eq!(answer.expect("an answer").status().as_u16(), 200, "{line}");
}
