//! Opaque page cursors: signed, and good only for the tenant and the list that handed them out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_core::id::TenantId;
use ring::hmac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// Items on a page unless the client asks otherwise.
const DEFAULT_LIMIT: u32 = 100;
/// Most items on a page.
const MAX_LIMIT: u32 = 1000;
const TAG_BYTES: usize = 16;

/// Signs cursors. It prints as its type only.
#[derive(Clone)]
pub struct CursorKey(hmac::Key);

impl CursorKey {
    /// A key from 32 secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// A cursor for the position after which the next page starts.
    pub(crate) fn seal<P: Serialize>(&self, tenant: TenantId, list: &str, position: &P) -> String {
        let body = serde_json::to_vec(position).unwrap_or_default();
        let tag = hmac::sign(&self.0, &signed(tenant, list, &body));
        URL_SAFE_NO_PAD.encode([&tag.as_ref()[..TAG_BYTES], &body].concat())
    }

    /// The position in a cursor that this server sealed for this tenant and list.
    pub(crate) fn open<P: DeserializeOwned>(
        &self,
        tenant: TenantId,
        list: &str,
        cursor: &str,
    ) -> Result<P, ApiError> {
        let refused = || ApiError::invalid("cursor", "the cursor is not one that this list handed out");
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
        let (tag, body) = bytes.split_at_checked(TAG_BYTES).ok_or_else(refused)?;
        let expected = hmac::sign(&self.0, &signed(tenant, list, body));
        // Both sides are public to whoever holds the cursor's tag; comparing digests of them leaks nothing useful.
        if !bool::from(subtle::ConstantTimeEq::ct_eq(tag, &expected.as_ref()[..TAG_BYTES])) {
            return Err(refused());
        }
        serde_json::from_slice(body).map_err(|_| refused())
    }
}

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey")
    }
}

fn signed(tenant: TenantId, list: &str, body: &[u8]) -> Vec<u8> {
    let mut message = b"coreci/cursor/v1\0".to_vec();
    message.extend(tenant.as_uuid().as_bytes());
    message.extend((list.len() as u64).to_be_bytes());
    message.extend(list.as_bytes());
    message.extend(body);
    message
}

/// The query of every list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

impl PageQuery {
    /// Items wanted, 1 to 1000.
    pub(crate) fn limit(&self) -> Result<u32, ApiError> {
        checked_limit(self.limit)
    }
}

/// Items wanted on a page, 1 to 1000; the default when the client does not say.
pub(crate) fn checked_limit(limit: Option<u32>) -> Result<u32, ApiError> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(ApiError::invalid("limit", "limit must be a number from 1 to 1000")),
    }
}

/// Cuts a page off a list that was fetched with one item more than wanted; `true` when there is a next page.
pub(crate) fn cut_page<T>(items: &mut Vec<T>, limit: u32) -> bool {
    let limit = limit as usize;
    let has_more = items.len() > limit;
    items.truncate(limit);
    has_more
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    // proves: C-B01
    #[test]
    fn a_cursor_is_good_for_its_own_tenant_and_list_only() {
        let key = CursorKey::new(&[7; 32]);
        let (a, b) = (TenantId::from_uuid(Uuid::from_u128(1)), TenantId::from_uuid(Uuid::from_u128(2)));
        let cursor = key.seal(a, "keys", &("ci", 5));

        assert_eq!(key.open::<(String, u32)>(a, "keys", &cursor), Ok(("ci".to_owned(), 5)));
        assert!(key.open::<(String, u32)>(b, "keys", &cursor).is_err());
        assert!(key.open::<(String, u32)>(a, "targets", &cursor).is_err());
        assert!(CursorKey::new(&[8; 32]).open::<(String, u32)>(a, "keys", &cursor).is_err());
        for junk in ["", "!", "AAAA", &cursor[..cursor.len() - 2]] {
            assert!(key.open::<(String, u32)>(a, "keys", junk).is_err(), "{junk}");
        }
    }
}
