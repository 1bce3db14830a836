//! Walks tool calls through the policy and prints what each is told.

use std::sync::Arc;

use mcp_core::id::{PrincipalId, TenantId};
use mcp_core::policy::{ToolPolicy, authorize, decide};
use mcp_core::principal::{Action, Grants, Principal};
use mcp_core::tool::ToolName;
use serde_json::Map;
use uuid::Uuid;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let operator = Arc::new(Principal {
        tenant: TenantId::from_uuid(Uuid::from_u128(1)),
        id: PrincipalId::from_uuid(Uuid::from_u128(2)),
        key: None,
        role: "operator",
        grants: Grants::new([Action::ToolsList, Action::ToolsInvoke]),
    });
    let policy = ToolPolicy::disabling([ToolName::GiteaListRepos]);

    for tool in ["github.list_repos", "gitea.list_repos", "github.delete_repo", "aws.list_buckets"] {
        let decision = authorize(Arc::clone(&operator), Action::ToolsInvoke)
            .and_then(|authorized| decide(authorized, tool, Map::new(), &policy, None));
        match decision {
            Ok(permit) => println!("{tool}: permitted as {}", permit.tool()),
            Err(error) => println!("{tool}: {} ({error})", error.code().as_str()),
        }
    }
}
