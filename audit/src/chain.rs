//! Rows, and the verifier that reads them in order. Pure: where the rows come from is not its business.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mcp_core::audit::EventType;
use mcp_core::id::{CorrelationId, EventId, TenantId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::canonical::{Fields, GENESIS};
use crate::verdict::{OpenCall, Tampering, Verdict, Why};

/// One row of a chain, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The chain.
    pub tenant: TenantId,
    /// The place, from 1.
    pub seq: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub at_us: u64,
    /// The kind of event. Text, not [`EventType`]: a row that a newer version wrote is still verified.
    pub event_type: String,
    /// The event's own id.
    pub event_id: EventId,
    /// A JSON object, in the very bytes that were hashed.
    pub body: Vec<u8>,
    /// The hash of the row before, [`GENESIS`] for the first.
    pub prev_hash: [u8; 32],
    /// The hash of this row.
    pub hash: [u8; 32],
}

impl Row {
    /// What is hashed of this row.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields {
            tenant: self.tenant,
            seq: self.seq,
            at_us: self.at_us,
            event_type: &self.event_type,
            event_id: self.event_id,
            body: &self.body,
        }
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The place of the last row; 0 when there is none.
    pub seq: u64,
    /// The time of the last row in microseconds; no later row has an earlier one.
    pub at_us: u64,
    /// The hash of the last row.
    pub hash: [u8; 32],
}

impl Head {
    /// The end of a chain without rows.
    pub const GENESIS: Self = Self { seq: 0, at_us: 0, hash: GENESIS };

    /// The end after one more event. The time is `now_us`, unless the chain is ahead of the clock already.
    #[must_use]
    pub(crate) fn next(
        &self,
        tenant: TenantId,
        event_type: &str,
        id: EventId,
        body: &[u8],
        now_us: u64,
    ) -> Self {
        let (seq, at_us) = (self.seq + 1, now_us.max(self.at_us));
        let hash = Fields { tenant, seq, at_us, event_type, event_id: id, body }.hash(&self.hash);
        Self { seq, at_us, hash }
    }
}

/// Checks the rows of one chain, fed in order from the first.
///
/// It finds every edit, gap, swap and insertion, and names the first bad row. It cannot find a cut tail by itself: give
/// [`ChainVerifier::finish`] the head that the chain should end in.
#[derive(Debug)]
pub struct ChainVerifier {
    tenant: TenantId,
    head: Head,
    rows: u64,
    open: BTreeMap<CorrelationId, u64>,
}

impl ChainVerifier {
    /// A verifier for the chain of one tenant.
    #[must_use]
    pub fn new(tenant: TenantId) -> Self {
        Self { tenant, head: Head::GENESIS, rows: 0, open: BTreeMap::new() }
    }

    /// The end of what was checked so far.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// Checks the next row.
    ///
    /// # Errors
    /// The first thing that is wrong with it. What follows a bad row has no meaning: stop there.
    pub fn push(&mut self, row: &Row) -> Result<(), Tampering> {
        let bad = |why| Err(Tampering { seq: row.seq, why });
        if row.tenant != self.tenant {
            return bad(Why::ForeignRow);
        }
        if row.seq <= self.head.seq {
            return bad(Why::Repeated);
        }
        let expected = self.head.seq + 1;
        if row.seq != expected {
            return Err(Tampering { seq: expected, why: Why::Gap });
        }
        if row.prev_hash != self.head.hash {
            return bad(Why::Link);
        }
        if row.fields().hash(&row.prev_hash) != row.hash {
            return bad(Why::Hash);
        }
        if row.at_us < self.head.at_us {
            return bad(Why::Time);
        }
        self.follow_call(row).map_err(|why| Tampering { seq: row.seq, why })?;
        self.head = Head { seq: row.seq, at_us: row.at_us, hash: row.hash };
        self.rows += 1;
        Ok(())
    }

    /// The verdict over all rows that were fed. `expected` is the head that an independent source knows; without one a
    /// chain whose last rows were cut off is taken for whole.
    #[must_use]
    pub fn finish(self, expected: Option<&Head>) -> Verdict {
        match expected {
            Some(expected) if expected.seq > self.head.seq => {
                Verdict::Truncated { expected: expected.seq, found: self.head.seq }
            }
            Some(expected) if expected.seq < self.head.seq => {
                Verdict::Tampered(Tampering { seq: expected.seq + 1, why: Why::BeyondHead })
            }
            Some(expected) if expected.hash != self.head.hash => {
                Verdict::Tampered(Tampering { seq: expected.seq, why: Why::OtherHead })
            }
            Some(_) | None => {
                let open = self.open.into_iter().map(|(correlation, seq)| OpenCall { correlation, seq });
                Verdict::Intact { rows: self.rows, head_hash: self.head.hash, open: open.collect() }
            }
        }
    }

    /// The body must be a JSON object; that of a call also opens or closes it.
    fn follow_call(&mut self, row: &Row) -> Result<(), Why> {
        let body = std::str::from_utf8(&row.body).map_err(|_| Why::Body)?;
        if !body.trim_start().starts_with('{') {
            return Err(Why::Body);
        }
        if row.event_type != EventType::CapabilityInvoked.as_str() {
            return serde_json::from_str::<IgnoredAny>(body).map(|_| ()).map_err(|_| Why::Body);
        }
        let call: CallBody<'_> = serde_json::from_str(body).map_err(|_| Why::Body)?;
        let correlation = || {
            let text = call.correlation_id.as_deref();
            text.and_then(|text| text.parse::<CorrelationId>().ok()).ok_or(Why::Body)
        };
        match call.phase.as_deref() {
            Some("started") => match self.open.insert(correlation()?, row.seq) {
                None => Ok(()),
                Some(_) => Err(Why::SecondIntent),
            },
            // A second outcome looks the same as one without an intent: its call is not open any more.
            Some("finished") => match self.open.remove(&correlation()?) {
                Some(_) => Ok(()),
                None => Err(Why::OutcomeWithoutIntent),
            },
            Some(_) => Ok(()),
            None => Err(Why::Body),
        }
    }
}

/// What the verifier reads of a call's body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallBody<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    correlation_id: Option<Cow<'a, str>>,
}
