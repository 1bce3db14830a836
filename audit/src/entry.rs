//! An event that is ready to be written: its body is JSON text, and agrees with how it is linked to a call.

use std::borrow::Cow;

use mcp_core::audit::{AuditError, AuditEvent, EventType, Link};
use mcp_core::id::{CorrelationId, EventId, InstanceId, TenantId};
use serde_json::{Map, Value, json};
use ulid::Ulid;

use crate::pseudonym::Pseudonyms;

/// The longest body that a caller can append, in bytes of JSON text. It keeps the queue's memory bounded.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tenant: TenantId,
    pub(crate) id: EventId,
    pub(crate) event_type: Cow<'static, str>,
    pub(crate) body: String,
    pub(crate) link: Link,
}

impl Entry {
    /// Hashes what is sensitive, and stamps the fields by which the chain alone tells which calls are open. They come from
    /// the link, so that the chain and the index of open calls cannot disagree.
    pub(crate) fn new(event: AuditEvent, pseudonyms: &Pseudonyms) -> Result<Self, AuditError> {
        let AuditEvent { id, tenant, event_type, body, link } = event;
        let mut body = body.into_stored(|json| pseudonyms.of(tenant, json));
        let is_call = event_type == EventType::CapabilityInvoked;
        match link {
            Link::Intent { .. } | Link::Outcome { .. } if !is_call => {
                return Err(AuditError::Refused("only a call has an intent and an outcome"));
            }
            Link::Intent { correlation, instance } => {
                stamp(&mut body, "started", correlation);
                body.insert("instance".to_owned(), json!(instance));
            }
            Link::Outcome { correlation } => stamp(&mut body, "finished", correlation),
            Link::Fact => {
                let phase = body.get("phase").and_then(Value::as_str);
                if is_call && !phase.is_some_and(|phase| phase != "started" && phase != "finished") {
                    return Err(AuditError::Refused("a fact can neither open nor close a call"));
                }
            }
        }
        if body.iter().any(|(key, value)| key.contains('\0') || has_nul(value)) {
            return Err(AuditError::Refused("it contains a NUL character"));
        }
        let body = Value::Object(body).to_string();
        if body.len() > MAX_BODY_BYTES {
            return Err(AuditError::Refused("it is too large"));
        }
        Ok(Self { tenant, id, event_type: Cow::Borrowed(event_type.as_str()), body, link })
    }

    /// The outcome of an intent that nobody will close any more. It says what the intent said, except for the arguments.
    pub(crate) fn interrupted(
        tenant: TenantId,
        correlation: CorrelationId,
        mut intent: Map<String, Value>,
        closed_by: InstanceId,
    ) -> Self {
        intent.remove("args");
        intent.remove("argsDigest");
        stamp(&mut intent, "finished", correlation);
        intent.insert("result".to_owned(), json!("interrupted"));
        intent.insert("closedBy".to_owned(), json!(closed_by));
        Self {
            tenant,
            id: EventId::from_ulid(Ulid::generate()),
            event_type: Cow::Borrowed(EventType::CapabilityInvoked.as_str()),
            body: Value::Object(intent).to_string(),
            link: Link::Outcome { correlation },
        }
    }
}

fn stamp(body: &mut Map<String, Value>, phase: &str, correlation: CorrelationId) {
    body.insert("phase".to_owned(), json!(phase));
    body.insert("correlationId".to_owned(), json!(correlation));
}

/// Postgres has no NUL in text, and so none in the JSON it could make of the body.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::audit::Body;
    use uuid::Uuid;

    use super::*;

    const CALL: CorrelationId = CorrelationId::from_ulid(Ulid(7));
    const INSTANCE: InstanceId = InstanceId::from_uuid(Uuid::from_u128(9));

    fn entry(event_type: EventType, body: Body, link: Link) -> Result<Value, AuditError> {
        let (id, tenant) = (EventId::from_ulid(Ulid(1)), TenantId::SYSTEM);
        let event = AuditEvent { id, tenant, event_type, body, link };
        let entry = Entry::new(event, &Pseudonyms::new(&[0; 32]))?;
        Ok(serde_json::from_str(&entry.body).unwrap())
    }

    // proves: AU-02
    #[test]
    fn the_body_says_what_the_link_says() {
        let intent = Link::Intent { correlation: CALL, instance: INSTANCE };
        let body = Body::new().public("userId", "u").public("phase", "finished");
        let stored = entry(EventType::CapabilityInvoked, body, intent).unwrap();
        let instance = INSTANCE.to_string();
        let expected = json!({
            "userId": "u", "phase": "started", "correlationId": CALL.to_string(), "instance": instance,
        });
        assert_eq!(stored, expected);

        let outcome = Link::Outcome { correlation: CALL };
        let stored = entry(EventType::CapabilityInvoked, Body::new(), outcome).unwrap();
        assert_eq!(stored, json!({"phase": "finished", "correlationId": CALL.to_string()}));
    }

    // proves: AU-11
    #[test]
    fn sensitive_fields_are_hashed_and_public_ones_are_not() {
        let body = Body::new().public("name", "db").sensitive("token", "canary-4711");
        let stored = entry(EventType::KeyCreated, body, Link::Fact).unwrap();
        assert_eq!(stored["name"], "db");
        let token = stored["token"].as_str().unwrap();
        assert!(
            token.starts_with(crate::pseudonym::PREFIX) && token.len() == 76 && !token.contains("canary")
        );
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        let refused = |event_type, body, link| match entry(event_type, body, link) {
            Err(AuditError::Refused(why)) => why,
            other => panic!("expected a refusal, got {other:?}"),
        };
        let nul = "it contains a NUL character";
        let key = EventType::KeyCreated;
        for value in [json!("a\0b"), json!([["\0"]]), json!({"x": {"\0": 1}})] {
            assert_eq!(refused(key, Body::new().public("a", value), Link::Fact), nul);
        }
        let big = "x".repeat(MAX_BODY_BYTES);
        assert_eq!(refused(key, Body::new().public("a", big), Link::Fact), "it is too large");
        let outcome = Link::Outcome { correlation: CALL };
        assert_eq!(refused(key, Body::new(), outcome), "only a call has an intent and an outcome");
        let fake = Body::new().public("phase", "finished").public("correlationId", CALL);
        let why = refused(EventType::CapabilityInvoked, fake, Link::Fact);
        assert_eq!(why, "a fact can neither open nor close a call");

        // Six characters that merely spell the escape are fine, and so is a NUL that gets hashed.
        assert!(entry(key, Body::new().public("a", r"\u0000").sensitive("b", "\0"), Link::Fact).is_ok());
    }
}
