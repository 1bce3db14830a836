use async_trait::async_trait;
use mcp_core::audit::Receipt;
use mcp_core::id::{CorrelationId, PrincipalId, TargetId, TenantId};
use mcp_core::jsonrpc::code;
use mcp_core::policy::{ToolPolicy, authorize, decide};
use mcp_core::principal::{Action, Grants, Principal};
use serde_json::json;
use uuid::Uuid;

use super::*;

const TENANT: TenantId = TenantId::from_uuid(Uuid::from_u128(1));

/// Answers, or fails, as it was made to.
struct Fake(Result<ToolOutput, AdapterError>);

#[async_trait]
impl Adapter for Fake {
    fn kind(&self) -> AdapterKind {
        AdapterKind::Github
    }

    async fn execute(&self, _: PermittedCall, _: Option<SecretValue>) -> Result<ToolOutput, AdapterError> {
        self.0.clone()
    }
}

fn output() -> ToolOutput {
    let structured = json!({"repos": [{"name": "a \"quoted\" one"}], "truncated": false});
    let facts = json!({"bytes": 7});
    let object = |value: Value| value.as_object().expect("an object").clone();
    ToolOutput::with_facts(object(structured), object(facts))
}

fn permitted(tool: &str, args: &Value) -> PermittedCall {
    let principal = Arc::new(Principal {
        tenant: TENANT,
        id: PrincipalId::from_uuid(Uuid::from_u128(2)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsInvoke]),
    });
    let args = args.as_object().expect("an object").clone();
    let authorized = authorize(principal, Action::ToolsInvoke).expect("granted");
    let permit = decide(authorized, tool, args, &ToolPolicy::default(), None).expect("allowed");
    let target = Target {
        tenant: TENANT,
        id: TargetId::from_uuid(Uuid::from_u128(3)),
        name: "forge".to_owned(),
        kind: permit.tool().kind(),
    };
    let intent = Receipt { tenant: TENANT, seq: 1, hash: [0; 32] };
    permit.bind(CorrelationId::from_uuid(Uuid::from_u128(4)), target, intent).expect("bound")
}

fn lent(tool: &str, args: &Value) -> Lent {
    Lent { call: permitted(tool, args), credential: None }
}

fn code_of(response: &Response) -> Option<i64> {
    match &response.outcome {
        Outcome::Result(_) => None,
        Outcome::Error(error) => Some(error.code),
    }
}

// proves: M-07
#[test]
fn registration_is_a_handshake_that_is_kept() {
    let link = Link::register(Arc::new(Fake(Ok(output()))));
    let lifecycle = link.lifecycle();
    let offered = serde_json::to_value(&lifecycle.offered).expect("json");
    assert_eq!(offered["method"], "initialize");
    assert_eq!(offered["params"]["protocolVersion"], "2025-06-18");
    assert_eq!(offered["params"]["capabilities"], json!({"tools": {"listChanged": false}}));
    let answered = serde_json::to_value(lifecycle.answered.as_ref().expect("an answer")).expect("json");
    assert_eq!(answered["id"], offered["id"]);
    assert_eq!(answered["result"]["capabilities"], json!({"tools": {}}));
    let confirmed = serde_json::to_value(lifecycle.confirmed.as_ref().expect("confirmed")).expect("json");
    assert_eq!(confirmed, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
}

// proves: M-02
#[tokio::test]
async fn an_answer_comes_through_its_envelope_unchanged() {
    let link = Link::register(Arc::new(Fake(Ok(output()))));
    assert_eq!(link.execute(permitted("github.list_repos", &json!({})), None).await, Ok(output()));
}

// proves: M-02, M-05
#[tokio::test]
async fn every_failure_of_an_adapter_comes_through_its_envelope_unchanged() {
    for error in [
        AdapterError::UpstreamAuth,
        AdapterError::InsufficientScope { permission: "actions:read".to_owned() },
        AdapterError::UpstreamRateLimited { retry_after_sec: 7 },
        AdapterError::Upstream("the forge is down".to_owned()),
        AdapterError::TooLarge,
        AdapterError::Malformed,
        AdapterError::TlsUntrusted,
        AdapterError::TlsPinMismatch,
        AdapterError::EgressDenied,
        AdapterError::Timeout,
        AdapterError::NotFound("no such repository".to_owned()),
        AdapterError::Offline,
        AdapterError::AgentDisconnected,
        AdapterError::AgentBusy,
        AdapterError::RejectedByAgent,
    ] {
        let link = Link::register(Arc::new(Fake(Err(error.clone()))));
        assert_eq!(link.execute(permitted("github.list_repos", &json!({})), None).await, Err(error));
    }
}

#[tokio::test]
async fn nothing_is_called_before_the_handshake_nor_by_an_envelope_that_says_other_than_its_permit() {
    let tool = "github.list_repos";
    let call =
        |id: Option<i64>, method: &str, params: Value| message(id.map(Id::Number), method, Some(params));
    let good = json!({"name": tool, "arguments": {}});
    let fresh = AdapterServer::new(Arc::new(Fake(Ok(output()))));
    let early = fresh.call(&call(Some(1), "tools/call", good.clone()), lent(tool, &json!({}))).await;
    assert_eq!(code_of(&early), Some(code::INVALID_REQUEST));

    let link = Link::register(Arc::new(Fake(Ok(output()))));
    for (request, expected) in [
        (call(Some(1), "tools/call", good.clone()), None),
        (call(None, "tools/call", good.clone()), Some(code::INVALID_REQUEST)),
        (call(Some(1), "tools/Call", good), Some(code::METHOD_NOT_FOUND)),
        (call(Some(1), "tools/call", json!({"name": 7})), Some(code::INVALID_PARAMS)),
        (call(Some(1), "tools/call", json!({"name": tool, "arguments": "x"})), Some(code::INVALID_PARAMS)),
        (call(Some(1), "tools/call", json!({"name": "gitea.list_repos"})), Some(code::INVALID_PARAMS)),
        (call(Some(1), "tools/call", json!({"name": "github.get_workflow_run"})), Some(code::INVALID_PARAMS)),
        (
            call(Some(1), "tools/call", json!({"name": tool, "arguments": {"target_id": "x"}})),
            Some(code::INVALID_PARAMS),
        ),
    ] {
        let response = link.server.call(&request, lent(tool, &json!({}))).await;
        assert_eq!(code_of(&response), expected, "{request:?}");
    }
}

// proves: M-02, M-03
#[test]
fn an_adapter_lists_its_own_tools_and_knows_no_other_method() {
    let link = Link::register(Arc::new(Fake(Ok(output()))));
    let ask = |method: &str| link.server.answer_control(&message(Some(Id::Number(5)), method, None));
    let list = serde_json::to_value(ask("tools/list")).expect("json");
    let names: Vec<_> =
        list["result"]["tools"].as_array().expect("a list").iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["github.list_repos", "github.get_recent_ci_runs", "github.get_workflow_run"]);
    assert_eq!(code_of(&ask("resources/list").expect("an answer")), Some(code::METHOD_NOT_FOUND));
    assert_eq!(code_of(&ask("initialize").expect("an answer")), Some(code::INVALID_REQUEST));
    assert_eq!(code_of(&ask("ping").expect("an answer")), None);
    let notification = message(None, "notifications/whatever", None);
    assert_eq!(link.server.answer_control(&notification), None);
}
