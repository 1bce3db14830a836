//! The audit log of one's own tenant: read, verify, export. All of it through a tenant transaction, so that row-level
//! security holds here as everywhere.

use std::sync::Arc;

use audit::chain::Row;
use audit::export::write_row;
use audit::reader::{Filter, ReadError, page, page_back};
use audit::verdict::Verdict;
use audit::verify::verify_tenant;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use mcp_core::audit::EventType;
use mcp_core::error::CallError;
use mcp_core::id::{CorrelationId, EventId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::rfc3339;
use crate::api::Api;
use crate::cursor::cut_page;
use crate::error::{ApiError, chain};
use crate::gate::Caller;
use crate::json::{Answer, StrictQuery};

/// Rows per page of an export. Each page is a transaction of its own, so a slow reader holds no snapshot.
const EXPORT_PAGE: u32 = 1000;

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match &error {
            ReadError::Database(cause) if cause.is_closed() => {
                tracing::error!(error = %chain(&error), "the audit log cannot be read");
                CallError::DatabaseUnavailable.into()
            }
            _ => Self::internal(&error),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ListQuery {
    limit: Option<u32>,
    cursor: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    correlation_id: Option<CorrelationId>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPage {
    events: Vec<EventView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView {
    seq: u64,
    time: String,
    #[serde(rename = "type")]
    event_type: String,
    event_id: EventId,
    body: Value,
    hash: String,
}

impl From<Row> for EventView {
    fn from(row: Row) -> Self {
        let nanos = i128::from(row.at_us) * 1000;
        Self {
            seq: row.seq,
            time: OffsetDateTime::from_unix_timestamp_nanos(nanos).map(rfc3339).unwrap_or_default(),
            event_type: row.event_type,
            event_id: row.event_id,
            body: serde_json::from_slice(&row.body).unwrap_or_default(),
            hash: hex(&row.hash),
        }
    }
}

/// Events, newest first.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Answer<EventPage>, ApiError> {
    let limit = crate::cursor::checked_limit(query.limit)?;
    let cursors = &api.settings.cursor_key;
    let before = match &query.cursor {
        Some(cursor) => cursors.open(principal.tenant, "audit", cursor)?,
        None => u64::MAX,
    };
    if query.event_type.as_deref().is_some_and(|name| EventType::parse(name).is_none()) {
        return Err(ApiError::invalid(
            "type",
            "type must be a kind of event, such as adapter.write_rejected",
        ));
    }
    let filter =
        Filter { event_type: query.event_type, correlation: query.correlation_id, ..Filter::default() };
    let tx = api.tenancy.tx(principal.tenant).await?;
    let mut rows = page_back(tx.client(), principal.tenant, before, limit + 1, &filter).await?;
    tx.commit().await?;
    let has_more = cut_page(&mut rows, limit);
    let last = rows.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursors.seal(principal.tenant, "audit", &last.seq));
    Ok(Answer(
        StatusCode::OK,
        EventPage { events: rows.into_iter().map(EventView::from).collect(), next_cursor },
    ))
}

/// Recomputes the tenant's chain from its first row.
pub(crate) async fn verify(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
) -> Result<Answer<Value>, ApiError> {
    // Verifying reads every row there is, so it costs what a call costs.
    api.broker.take_token(&principal).await?;
    let tx = api.tenancy.tx(principal.tenant).await?;
    let verdict = verify_tenant(tx.client(), principal.tenant, |_| {}).await?;
    tx.commit().await?;
    Ok(Answer(StatusCode::OK, view(&verdict)))
}

fn view(verdict: &Verdict) -> Value {
    let mut answer = json!({ "verified": verdict.is_intact(), "verdict": verdict.to_string() });
    match verdict {
        Verdict::Intact { rows, head_hash, open } => {
            answer["rows"] = json!(rows);
            answer["headHash"] = json!(hex(head_hash));
            answer["open"] = json!(open.len());
        }
        Verdict::Tampered(tampering) => answer["badSeq"] = json!(tampering.seq),
        Verdict::Truncated { expected, found } => {
            answer["expectedRows"] = json!(expected);
            answer["rows"] = json!(found);
        }
    }
    answer
}

/// The tenant's whole chain as NDJSON, from its first row. A chain that cannot be read to its end breaks the transfer, so
/// that no client takes a part for the whole.
pub(crate) async fn export(
    State(api): State<Arc<Api>>,
    Caller(principal): Caller,
) -> Result<Response, ApiError> {
    api.broker.take_token(&principal).await?;
    let tenant = principal.tenant;
    let pages = stream::try_unfold((api, Some(0)), move |(api, after)| async move {
        let Some(after) = after else { return Ok(None) };
        let (lines, last) = export_page(&api, tenant, after).await?;
        Ok::<_, std::io::Error>(Some((Bytes::from(lines), (api, last))))
    });
    let ndjson = (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(([ndjson], Body::from_stream(pages)).into_response())
}

/// The lines of one page, and the place after which the next one starts, if there may be one.
async fn export_page(
    api: &Api,
    tenant: TenantId,
    after: u64,
) -> Result<(Vec<u8>, Option<u64>), std::io::Error> {
    let failed = |error: &dyn std::error::Error| {
        tracing::error!(tenant.id = %tenant, error = %chain(error), "an audit export broke off");
        std::io::Error::other("the export broke off")
    };
    let tx = api.tenancy.tx(tenant).await.map_err(|error| failed(&error))?;
    let rows = page(tx.client(), tenant, after, EXPORT_PAGE, None).await.map_err(|error| failed(&error))?;
    tx.commit().await.map_err(|error| failed(&error))?;
    let is_full = rows.len() == EXPORT_PAGE as usize;
    let last = rows.last().map(|row| row.seq).filter(|_| is_full);
    let mut lines = Vec::new();
    for row in &rows {
        write_row(&mut lines, row).map_err(|error| failed(&error))?;
    }
    Ok((lines, last))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
