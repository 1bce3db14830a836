//! Verifies chains in the database.

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_core::id::TenantId;
use tokio_postgres::Client;

use crate::chain::{ChainVerifier, Head, Row};
use crate::reader::{self, ReadError};
use crate::verdict::{Tampering, Verdict, Why};

/// Verifies one chain from its first row, and that it ends where its head says. `progress` is told the number of rows
/// checked so far, every few thousand. Events that are appended meanwhile do no harm.
///
/// Without a head from elsewhere (an export, a receipt) this cannot see that rows were cut off together with the head.
///
/// # Errors
/// [`ReadError`] when the chain could not be read; that is no verdict.
pub async fn verify_tenant(
    client: &Client,
    tenant: TenantId,
    mut progress: impl FnMut(u64),
) -> Result<Verdict, ReadError> {
    // Read before the rows: whatever it counts must be there. Read again after them: no row may be past it.
    let before = reader::head(client, tenant).await?;
    let mut verifier = ChainVerifier::new(tenant);
    let checked = AtomicU64::new(0);
    let check = |row: Row| {
        verifier.push(&row).map_err(Stop::Tampered)?;
        checked.store(row.seq, Ordering::Relaxed);
        match before {
            Some(head) if head.seq == row.seq && head.hash != row.hash => {
                Err(Stop::Tampered(Tampering { seq: row.seq, why: Why::OtherHead }))
            }
            _ => Ok(()),
        }
    };
    match reader::walk(client, tenant, check, || progress(checked.load(Ordering::Relaxed))).await {
        Ok(()) => {}
        Err(Stop::Tampered(tampering)) => return Ok(Verdict::Tampered(tampering)),
        Err(Stop::Read(error)) => return Err(error),
    }
    let found = verifier.head();
    let before = before.unwrap_or(Head::GENESIS);
    if found.seq < before.seq {
        return Ok(verifier.finish(Some(&before)));
    }
    let after = reader::head(client, tenant).await?.unwrap_or(Head::GENESIS);
    // Rows that came after the last page are the next verification's.
    Ok(verifier.finish(if after.seq > found.seq { None } else { Some(&after) }))
}

/// Verifies every chain that may be seen, in the order of tenants: those that have a head, and those that only have rows.
///
/// # Errors
/// [`ReadError`] when one could not be read.
pub async fn verify_all(
    client: &Client,
    mut progress: impl FnMut(TenantId, u64),
) -> Result<Vec<(TenantId, Verdict)>, ReadError> {
    let mut tenants = reader::tenants_with_rows(client).await?;
    tenants.extend(reader::heads(client).await?.into_iter().map(|(tenant, _)| tenant));
    tenants.sort_unstable();
    tenants.dedup();
    let mut verdicts = Vec::with_capacity(tenants.len());
    for tenant in tenants {
        let verdict = verify_tenant(client, tenant, |rows| progress(tenant, rows)).await?;
        verdicts.push((tenant, verdict));
    }
    Ok(verdicts)
}

/// Why the rows are not read to their end.
enum Stop {
    Read(ReadError),
    Tampered(Tampering),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
