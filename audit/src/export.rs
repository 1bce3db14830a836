//! Chains as NDJSON: one row per line, to be kept where the operator of the database cannot write, and verified offline.
//!
//! `{"tenant","seq","time","type","eventId","body","prev","hash"}`: the time in RFC 3339 with microseconds in UTC, the body
//! in base64, hashes in lower-case hexadecimal. Each value has one spelling, and other fields are refused: what is not hashed
//! must not look as if it were.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::id::TenantId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::Client;

use crate::chain::{ChainVerifier, Row};
use crate::reader::{self, ReadError};
use crate::verdict::{EXIT_COULD_NOT_CHECK, Tampering, Verdict, Why};
use crate::{MAX_BODY_BYTES, hex};

/// The longest line, in bytes. No row that was ever written comes near it.
pub const MAX_LINE_BYTES: usize = 4 * MAX_BODY_BYTES;

/// An export could not be written, or is not one.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The rows could not be read from the database.
    #[error("the rows could not be read")]
    Rows(#[from] ReadError),
    /// The file could not be read or written.
    #[error("the export could not be read or written")]
    Io(#[from] io::Error),
    /// A row's time has no RFC 3339 form.
    #[error("row {seq} has an impossible time")]
    Time {
        /// The row.
        seq: u64,
    },
    /// A line is too long, or not an object with exactly the fields of a row.
    #[error("line {line} is not an audit row")]
    NotARow {
        /// Counted from 1.
        line: u64,
    },
    /// A line names its row, but another part of it cannot be read.
    #[error("line {line} (row {seq} of tenant {tenant}) is damaged")]
    Damaged {
        /// Counted from 1.
        line: u64,
        /// The chain it says it belongs to.
        tenant: TenantId,
        /// The row it says it is.
        seq: u64,
    },
    /// There is no row in it.
    #[error("the export is empty")]
    Empty,
}

impl ExportError {
    /// What `audit verify` exits with: it could not check.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        EXIT_COULD_NOT_CHECK
    }
}

/// Writes one row as one line.
///
/// # Errors
/// [`ExportError::Io`], or [`ExportError::Time`] for a row that no writer of ours has made.
pub fn write_row(out: &mut impl Write, row: &Row) -> Result<(), ExportError> {
    let line = Line {
        tenant: row.tenant.to_string().into(),
        seq: row.seq,
        time: time_text(row.at_us).ok_or(ExportError::Time { seq: row.seq })?.into(),
        event_type: Cow::Borrowed(&row.event_type),
        event_id: row.event_id.to_string().into(),
        body: STANDARD.encode(&row.body).into(),
        prev: hex::encode(&row.prev_hash).into(),
        hash: hex::encode(&row.hash).into(),
    };
    serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

/// Writes a whole chain and returns the number of rows. `progress` is told how many are written, every few thousand.
///
/// # Errors
/// See [`ExportError`].
pub async fn export_tenant(
    client: &Client,
    tenant: TenantId,
    out: &mut impl Write,
    mut progress: impl FnMut(u64),
) -> Result<u64, ExportError> {
    let written = AtomicU64::new(0);
    let write = |row: Row| {
        written.fetch_add(1, Ordering::Relaxed);
        write_row(out, &row)
    };
    reader::walk(client, tenant, write, || progress(written.load(Ordering::Relaxed))).await?;
    Ok(written.into_inner())
}

/// Reads rows back, in the order of the lines. It reads a line at a time and stops after the first error that leaves it
/// without a place to go on from.
pub fn read_rows(reader: impl BufRead) -> impl Iterator<Item = Result<Row, ExportError>> {
    let mut lines = Lines { reader, number: 0, ended: false };
    std::iter::from_fn(move || lines.next_row())
}

/// Verifies an export without a database: every chain in it, by tenant. Lines of several chains may be mixed.
///
/// That the last rows were cut off is not seen: compare the last hash with a receipt or with another copy.
///
/// # Errors
/// [`ExportError`] when this is not an export; that is no verdict. A line that still names its row is
/// [`Verdict::Tampered`] instead.
pub fn verify_export(reader: impl BufRead) -> Result<Vec<(TenantId, Verdict)>, ExportError> {
    let mut chains: BTreeMap<TenantId, Result<ChainVerifier, Tampering>> = BTreeMap::new();
    for row in read_rows(reader) {
        let (tenant, row) = match row {
            Ok(row) => (row.tenant, Ok(row)),
            Err(ExportError::Damaged { tenant, seq, .. }) => {
                (tenant, Err(Tampering { seq, why: Why::Unreadable }))
            }
            Err(error) => return Err(error),
        };
        let chain = chains.entry(tenant).or_insert_with(|| Ok(ChainVerifier::new(tenant)));
        // What follows the first bad row of a chain has no meaning.
        if let Ok(verifier) = chain
            && let Err(tampering) = row.and_then(|row| verifier.push(&row))
        {
            *chain = Err(tampering);
        }
    }
    if chains.is_empty() {
        return Err(ExportError::Empty);
    }
    let verdict = |chain: Result<ChainVerifier, Tampering>| match chain {
        Ok(verifier) => verifier.finish(None),
        Err(tampering) => Verdict::Tampered(tampering),
    };
    Ok(chains.into_iter().map(|(tenant, chain)| (tenant, verdict(chain))).collect())
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(borrow, rename = "eventId")]
    event_id: Cow<'a, str>,
    #[serde(borrow)]
    body: Cow<'a, str>,
    #[serde(borrow)]
    prev: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
}

impl Line<'_> {
    fn tenant(&self) -> Option<TenantId> {
        self.tenant.parse().ok().filter(|tenant: &TenantId| tenant.to_string() == self.tenant)
    }

    fn row(&self, tenant: TenantId) -> Option<Row> {
        Some(Row {
            tenant,
            seq: self.seq,
            at_us: time_of(&self.time)?,
            event_type: self.event_type.clone().into_owned(),
            event_id: self.event_id.parse().ok()?,
            body: STANDARD.decode(self.body.as_bytes()).ok()?,
            prev_hash: hex::decode(&self.prev)?,
            hash: hex::decode(&self.hash)?,
        })
    }
}

struct Lines<R> {
    reader: R,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    fn next_row(&mut self) -> Option<Result<Row, ExportError>> {
        if self.ended {
            return None;
        }
        let row = self.read_row().transpose();
        self.ended = !matches!(row, Some(Ok(_) | Err(ExportError::Damaged { .. })));
        row
    }

    fn read_row(&mut self) -> Result<Option<Row>, ExportError> {
        let mut bytes = Vec::new();
        (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let line = self.number;
        if bytes.len() > MAX_LINE_BYTES {
            return Err(ExportError::NotARow { line });
        }
        // An array of the right values would deserialize, too.
        let parsed = bytes.starts_with(b"{").then(|| serde_json::from_slice::<Line<'_>>(&bytes));
        let Some(Ok(parsed)) = parsed else { return Err(ExportError::NotARow { line }) };
        let tenant = parsed.tenant().ok_or(ExportError::NotARow { line })?;
        let damaged = ExportError::Damaged { line, tenant, seq: parsed.seq };
        parsed.row(tenant).map(Some).ok_or(damaged)
    }
}

/// RFC 3339 with exactly six digits after the point and a `Z`; `None` after the year 9999.
fn time_text(at_us: u64) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_us) * 1000).ok()?;
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, micro) = at.to_hms_micro();
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z"))
}

fn time_of(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let at_us = u64::try_from(at.unix_timestamp_nanos() / 1000).ok()?;
    (time_text(at_us)? == text).then_some(at_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_spelling() {
        for at_us in [0, 1, 999_999, 1_764_556_620_123_456, 253_402_300_799_999_999] {
            assert_eq!(time_of(&time_text(at_us).unwrap()), Some(at_us));
        }
        assert_eq!(time_text(1_764_556_620_123_456).unwrap(), "2025-12-01T02:37:00.123456Z");
        assert_eq!(time_text(u64::MAX), None);
        for text in
            ["2025-12-01T02:37:00Z", "2025-12-01T03:37:00.123456+01:00", "2025-12-01t02:37:00.123456Z", ""]
        {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
