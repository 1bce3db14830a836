//! `GET /api/me`.

use http::StatusCode;
use mcp_core::principal::{Action, PrincipalView};
use serde::Serialize;

use crate::gate::Caller;
use crate::json::Answer;

#[derive(Serialize)]
pub(crate) struct Me {
    #[serde(flatten)]
    principal: PrincipalView,
    actions: Vec<&'static str>,
}

/// Who the key belongs to, and what it may do.
pub(crate) async fn show(Caller(principal): Caller) -> Answer<Me> {
    let granted = Action::ALL.iter().filter(|action| principal.grants.cover_action(**action));
    let actions = granted.map(|action| action.as_str()).collect();
    Answer(StatusCode::OK, Me { principal: PrincipalView::from(principal.as_ref()), actions })
}
