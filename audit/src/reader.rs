//! Reads rows, page by page. Works as `coreci_audit`, which sees all chains, and in a tenant's transaction of
//! `coreci_app`, which sees that tenant's only.

use futures_util::{Stream, StreamExt, TryStreamExt};
use mcp_core::id::{CorrelationId, EventId, TenantId};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};
use uuid::Uuid;

use crate::chain::{Head, Row};

/// Bounded on both sides: a planner without statistics would sort all that is left of the chain for each page.
const ROWS_BETWEEN: &str = "
    select tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash from audit_log
    where tenant_id = $1 and seq > $2 and seq <= $3 order by seq";
const NEXT_SEQ: &str = "select min(seq) from audit_log where tenant_id = $1 and seq > $2";
const ROWS_FILTERED: &str = "
    select tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash from audit_log
    where tenant_id = $1 and seq > $2
      and ($4::text is null or event_type = $4)
      and ($5::text is null or body_json ->> 'correlationId' = $5)
      and ($6::int8 is null or at_us >= $6)
      and ($7::int8 is null or at_us < $7)
    order by seq limit $3";
const ROWS_FILTERED_BACKWARDS: &str = "
    select tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash from audit_log
    where tenant_id = $1 and seq < $2
      and ($4::text is null or event_type = $4)
      and ($5::text is null or body_json ->> 'correlationId' = $5)
      and ($6::int8 is null or at_us >= $6)
      and ($7::int8 is null or at_us < $7)
    order by seq desc limit $3";
const HEAD: &str = "select tenant_id, seq, at_us, hash from audit_heads where tenant_id = $1";
const HEADS: &str = "select tenant_id, seq, at_us, hash from audit_heads order by tenant_id";
/// Skips from tenant to tenant along the primary key instead of reading every row.
const TENANTS_WITH_ROWS: &str = "
    with recursive t (id) as (
        (select tenant_id from audit_log order by tenant_id limit 1)
        union all
        select (select tenant_id from audit_log where tenant_id > t.id order by tenant_id limit 1)
        from t where t.id is not null)
    select id from t where id is not null";

/// Rows per query of [`walk`]: each stays far below the role's statement timeout.
const WALK_PAGE: u64 = 10_000;

/// The log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database failed or refused.
    #[error("the audit log could not be read")]
    Database(#[from] tokio_postgres::Error),
    /// A stored value is not of the form that the schema demands.
    #[error("a stored audit row is malformed")]
    Malformed,
}

impl ReadError {
    /// What `audit verify` exits with: it could not check.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        crate::verdict::EXIT_COULD_NOT_CHECK
    }
}

/// A connection to read with, for commands that have no other. `database` logs in as `coreci_audit`.
///
/// # Errors
/// [`ReadError::Database`].
pub async fn connect(database: &Config) -> Result<Client, ReadError> {
    let (client, connection) = database.connect(NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection that read the audit log ended");
        }
    });
    Ok(client)
}

/// Which rows to read. The default lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this kind.
    pub event_type: Option<String>,
    /// Only of this call.
    pub correlation: Option<CorrelationId>,
    /// Not before this time, in microseconds since 1970.
    pub from_us: Option<u64>,
    /// Before this time, in microseconds since 1970.
    pub until_us: Option<u64>,
}

/// Up to `limit` rows after `after_seq`, oldest first. 0 begins at the beginning; a page that is not full is the last.
///
/// # Errors
/// See [`ReadError`].
pub async fn page(
    client: &Client,
    tenant: TenantId,
    after_seq: u64,
    limit: u32,
    filter: Option<&Filter>,
) -> Result<Vec<Row>, ReadError> {
    if filter.is_none() {
        let until = after_seq.saturating_add(u64::from(limit));
        let rows: Vec<Row> = rows_between(client, tenant, after_seq, until).await?.try_collect().await?;
        // Fewer: the end of the chain, or a gap in it.
        if rows.len() == limit as usize {
            return Ok(rows);
        }
    }
    let filter = filter.cloned().unwrap_or_default();
    filtered(client, ROWS_FILTERED, tenant, after_seq, limit, &filter).await
}

/// Up to `limit` rows before `before_seq`, newest first. `u64::MAX` begins at the end.
///
/// # Errors
/// See [`ReadError`].
pub async fn page_back(
    client: &Client,
    tenant: TenantId,
    before_seq: u64,
    limit: u32,
    filter: &Filter,
) -> Result<Vec<Row>, ReadError> {
    filtered(client, ROWS_FILTERED_BACKWARDS, tenant, before_seq, limit, filter).await
}

/// The recorded end of one chain; `None` when nothing was ever written to it, or it may not be seen.
///
/// # Errors
/// See [`ReadError`].
pub async fn head(client: &Client, tenant: TenantId) -> Result<Option<Head>, ReadError> {
    let rows = client.query_typed(HEAD, &[(&tenant.as_uuid(), Type::UUID)]).await?;
    rows.first().map(|row| Ok(head_of(row)?.1)).transpose()
}

/// The recorded ends of all chains that may be seen, by tenant.
///
/// # Errors
/// See [`ReadError`].
pub async fn heads(client: &Client) -> Result<Vec<(TenantId, Head)>, ReadError> {
    client.query_typed(HEADS, &[]).await?.iter().map(head_of).collect()
}

/// All tenants that have rows, whether or not their heads are there.
pub(crate) async fn tenants_with_rows(client: &Client) -> Result<Vec<TenantId>, ReadError> {
    let rows = client.query_typed(TENANTS_WITH_ROWS, &[]).await?;
    Ok(rows.iter().map(|row| TenantId::from_uuid(row.get(0))).collect())
}

/// Hands every row of a chain to `each`, in order, while they arrive; `page_done` is called every few thousand. It stops at
/// the first error.
pub(crate) async fn walk<E: From<ReadError>>(
    client: &Client,
    tenant: TenantId,
    mut each: impl FnMut(Row) -> Result<(), E>,
    mut page_done: impl FnMut(),
) -> Result<(), E> {
    let mut after = 0;
    loop {
        let until = after + WALK_PAGE;
        let mut rows = std::pin::pin!(rows_between(client, tenant, after, until).await?);
        let mut count = 0;
        while let Some(row) = rows.try_next().await? {
            count += 1;
            each(row)?;
        }
        page_done();
        after = until;
        if count < WALK_PAGE {
            // Usually the end; but rows behind a gap must not be missed.
            let params: [(&(dyn ToSql + Sync), Type); 2] =
                [(&tenant.as_uuid(), Type::UUID), (&bigint(after), Type::INT8)];
            let next = client.query_typed(NEXT_SEQ, &params).await.map_err(ReadError::Database)?;
            match next.first().and_then(|row| row.get::<_, Option<i64>>(0)) {
                Some(seq) => after = seq.unsigned_abs() - 1,
                None => return Ok(()),
            }
        }
    }
}

async fn rows_between(
    client: &Client,
    tenant: TenantId,
    after: u64,
    until: u64,
) -> Result<impl Stream<Item = Result<Row, ReadError>> + use<>, ReadError> {
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&tenant.as_uuid(), Type::UUID), (&bigint(after), Type::INT8), (&bigint(until), Type::INT8)];
    let rows = client.query_typed_raw(ROWS_BETWEEN, params).await?;
    Ok(rows.map(|row| row.map_err(ReadError::Database).and_then(|row| row_of(&row))))
}

async fn filtered(
    client: &Client,
    sql: &str,
    tenant: TenantId,
    seq: u64,
    limit: u32,
    filter: &Filter,
) -> Result<Vec<Row>, ReadError> {
    let Filter { event_type, correlation, from_us, until_us } = filter;
    let correlation = correlation.map(|correlation| correlation.to_string());
    let (from, until) = (from_us.map(bigint), until_us.map(bigint));
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
        (&tenant.as_uuid(), Type::UUID),
        (&bigint(seq), Type::INT8),
        (&i64::from(limit), Type::INT8),
        (event_type, Type::TEXT),
        (&correlation, Type::TEXT),
        (&from, Type::INT8),
        (&until, Type::INT8),
    ];
    client.query_typed(sql, &params).await?.iter().map(row_of).collect()
}

fn bigint(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, ReadError> {
    Ok(Row {
        tenant: TenantId::from_uuid(row.try_get::<_, Uuid>(0)?),
        seq: number(row, 1)?,
        at_us: number(row, 2)?,
        event_type: row.try_get(3)?,
        event_id: EventId::from_uuid(row.try_get(4)?),
        body: row.try_get(5)?,
        prev_hash: hash(row, 6)?,
        hash: hash(row, 7)?,
    })
}

fn head_of(row: &tokio_postgres::Row) -> Result<(TenantId, Head), ReadError> {
    let head = Head { seq: number(row, 1)?, at_us: number(row, 2)?, hash: hash(row, 3)? };
    Ok((TenantId::from_uuid(row.try_get::<_, Uuid>(0)?), head))
}

fn number(row: &tokio_postgres::Row, column: usize) -> Result<u64, ReadError> {
    u64::try_from(row.try_get::<_, i64>(column)?).map_err(|_| ReadError::Malformed)
}

fn hash(row: &tokio_postgres::Row, column: usize) -> Result<[u8; 32], ReadError> {
    row.try_get::<_, &[u8]>(column)?.try_into().map_err(|_| ReadError::Malformed)
}
