//! The handlers, by what they are about. Each turns a request into one call of a service and its answer into JSON.

pub(crate) mod adapters;
pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod me;
pub(crate) mod protected_resource;
pub(crate) mod relay;
pub(crate) mod targets;
pub(crate) mod tools;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time as every answer writes it: RFC 3339 in UTC, to the millisecond.
fn rfc3339(time: OffsetDateTime) -> String {
    let millis = time.nanosecond() / 1_000_000 * 1_000_000;
    let time = time.to_offset(time::UtcOffset::UTC).replace_nanosecond(millis).unwrap_or(time);
    time.format(&Rfc3339).unwrap_or_default()
}
