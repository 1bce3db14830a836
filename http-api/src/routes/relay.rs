//! Where agents enrol and connect.

use std::sync::Arc;

use adapter_ssh::{Inbound, Outbound, serve};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt, future};
use http::{HeaderMap, StatusCode, header};
use mcp_core::audit::{AuditEvent, Body, EventType, Link};
use mcp_core::error::{CallError, ErrorCode};
use mcp_core::id::{EventId, TenantId};
use mcp_core::relay::{HostFacts, MAX_FRAME_BYTES};
use serde::Deserialize;
use serde_json::json;
use tenancy::TenancyError;
use tenancy::stores::agent::enrolment_use;
use ulid::Ulid;

use super::targets::token_hash;
use crate::api::Api;
use crate::error::ApiError;
use crate::json::{Answer, StrictJson};
use crate::network::{PeerAddr, client_ip};
use crate::server::ConnectionPlace;

/// Socket buffer per agent. tungstenite's default of 128 KiB would make thousands of idle agents costly.
const READ_BUFFER_BYTES: usize = 4 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EnrollBody {
    token: String,
    public_key: String,
    hostname: String,
    os: String,
    #[serde(default)]
    ip: Option<String>,
    version: String,
}

/// Redeems a single-use token for an agent's identity. An unknown, used or expired token gets one answer.
pub(crate) async fn enroll(
    State(api): State<Arc<Api>>,
    peer: Option<Extension<PeerAddr>>,
    headers: HeaderMap,
    body: StrictJson<EnrollBody>,
) -> Result<Response, ApiError> {
    let EnrollBody { token, public_key, hostname, os, ip, version } = body.value;
    let public_key = parse_key(&public_key)?;
    let facts = HostFacts { hostname, os, ip, version }.bounded();
    let from = client_ip(peer.map(|Extension(peer)| peer), &headers, &api.settings.trusted_proxies);
    let from = from.map(|address| address.to_string());
    let found = api.tenancy.lookup().enrolment(&token_hash(&token)).await?;
    let Some((tenant, enrolment)) = found else {
        return Err(refused(&api, from.as_deref()).await);
    };
    let tx = api.tenancy.tx(tenant).await?;
    match enrolment_use(&tx, enrolment, &public_key, &facts, from.as_deref()).await {
        Ok(agent) => {
            tx.commit().await?;
            api.audit.outbox_changed();
            let answer = json!({ "agentId": agent.agent_id, "targetId": agent.target_id });
            Ok(Answer(StatusCode::CREATED, answer).into_response())
        }
        Err(TenancyError::NotFound) => Err(refused(&api, from.as_deref()).await),
        Err(TenancyError::Conflict { .. }) => {
            let message = "a target of that name was added meanwhile; make a token with another name";
            Err(ApiError::new(ErrorCode::Conflict, message))
        }
        Err(error) => Err(error.into()),
    }
}

fn parse_key(text: &str) -> Result<[u8; 32], ApiError> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes = (0..64).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = bytes.filter(|_| is_hex).and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| ApiError::invalid("publicKey", "publicKey must be 32 bytes in hexadecimal"))
}

/// Nobody's tenant is known here, so the attempt goes to the system's own chain, once a minute at most.
async fn refused(api: &Api, from: Option<&str>) -> ApiError {
    metrics::counter!("coreci_enroll_failures_total").increment(1);
    if api.enroll_failures.is_first(()) {
        let id = EventId::from_ulid(Ulid::generate());
        let body = Body::new().public("peer", from);
        let event_type = EventType::RelayEnrollFailed;
        let event = AuditEvent { id, tenant: TenantId::SYSTEM, event_type, body, link: Link::Fact };
        if let Err(error) = api.audit.append(event).await {
            return error.into();
        }
    }
    let message = "the enrolment token is unknown, used or expired; ask an admin for a new one";
    ApiError::new(ErrorCode::Unauthenticated, message)
}

/// Accepts an agent's socket. Browsers have no business here: a request with an Origin is turned away.
pub(crate) async fn connect(
    State(api): State<Arc<Api>>,
    peer: Option<Extension<PeerAddr>>,
    place: Option<Extension<ConnectionPlace>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    if headers.contains_key(header::ORIGIN) {
        return Err(CallError::Forbidden.into());
    }
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(ErrorCode::InvalidRequest, "this route takes WebSocket connections only")
    })?;
    let from = client_ip(peer.map(|Extension(peer)| peer), &headers, &api.settings.trusted_proxies);
    let from = from.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
    let hub = Arc::clone(&api.hub);
    // Frames are never fragmented, so the two limits are one; compression stays off.
    let upgrade = upgrade
        .max_message_size(MAX_FRAME_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0);
    Ok(upgrade.on_upgrade(move |socket| async move {
        drive(hub, from, socket).await;
        drop(place);
    }))
}

async fn drive(hub: Arc<adapter_ssh::Hub>, from: String, socket: WebSocket) {
    let (sink, stream) = socket.split();
    // A broken or oversized message ends the stream; so does a close.
    let inbound = stream.take_while(|message| future::ready(message.is_ok())).filter_map(|message| {
        future::ready(match message {
            Ok(Message::Text(text)) => Some(Inbound::Text(text.to_string())),
            Ok(Message::Binary(_)) => Some(Inbound::Other),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_)) | Err(_) => None,
        })
    });
    let outbound = sink.with(|message| {
        future::ready(Ok::<_, axum::Error>(match message {
            Outbound::Text(text) => Message::Text(text.into()),
            Outbound::Close { code, reason } => {
                Message::Close(Some(CloseFrame { code, reason: reason.into() }))
            }
        }))
    });
    serve(hub, from, inbound, outbound).await;
}
