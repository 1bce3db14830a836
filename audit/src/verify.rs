//! Verifies chains in the database.

use futures_util::TryStreamExt;
use mcp_core::id::TenantId;
use tokio_postgres::Client;

use crate::chain::{ChainVerifier, Head};
use crate::reader::{self, ReadError};
use crate::verdict::{Tampering, Verdict, Why};

/// Rows per query: each stays far below the role's statement timeout, and is checked while it arrives.
const PAGE: u32 = 10_000;

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
    loop {
        let start = verifier.head().seq;
        let mut rows = std::pin::pin!(reader::rows(client, tenant, start, PAGE).await?);
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            count += 1;
            if let Err(tampering) = verifier.push(&row) {
                return Ok(Verdict::Tampered(tampering));
            }
            if before.is_some_and(|head| head.seq == row.seq && head.hash != row.hash) {
                return Ok(Verdict::Tampered(Tampering { seq: row.seq, why: Why::OtherHead }));
            }
        }
        progress(verifier.head().seq);
        if count < PAGE {
            break;
        }
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
