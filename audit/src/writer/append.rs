//! One transaction: lock the heads, look what is there, hash, write.
//!
//! Two round trips and one commit, however many rows and tenants. All that depends on a chain's state happens under the lock
//! of its head, so two writers on one tenant take turns and never fork it, and a transaction of unknown outcome is over by
//! the time its retry looks for its rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join4;
use mcp_core::audit::{Link, Receipt};
use mcp_core::id::TenantId;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::failure::Failure;
use super::session::Session;
use crate::chain::Head;
use crate::entry::Entry;

/// An event to append, and what to know about it.
pub(crate) trait Work {
    fn entry(&self) -> &Entry;
    /// Whether it may be in the log already.
    fn may_be_there(&self) -> bool;
    /// Whether it is not to be written any more (unless it is there).
    fn is_withdrawn(&self) -> bool;
}

/// What became of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Done {
    /// It is in the log, by this transaction or by an earlier one.
    Written(Receipt),
    /// It is an outcome and came too late.
    AlreadyClosed,
    /// Its caller left in time.
    Withdrawn,
}

/// The last sequence number that this writer has seen committed, per tenant. A head behind it means that the server was
/// restored from a backup or is a standby that lags: to go on would be to write a second history.
pub(crate) type Known = HashMap<Uuid, u64>;

/// Where the transaction of an append begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// With it.
    Begin,
    /// It is open already, and what was done in it commits together with the rows.
    Continue,
}

/// Events found in the log, by tenant and event id.
type Lookup = HashMap<(Uuid, Uuid), Receipt>;

/// Appends events in one transaction and says what became of each.
///
/// # Errors
/// See [`Failure`]; after [`Failure::Row`] and [`Failure::Server`] the session may still be inside the failed transaction.
///
/// Not cancel-safe: when the future is dropped, the session must be dropped too.
pub(crate) async fn append<W: Work>(
    session: &Session,
    known: &mut Known,
    transaction: Transaction,
    works: &[W],
) -> Result<Vec<Done>, Failure> {
    let tenants: BTreeSet<Uuid> = works.iter().map(|work| work.entry().tenant.as_uuid()).collect();
    let (outcomes, doubtful) =
        (keys(works.iter().filter_map(outcome_key)), event_keys(works, W::may_be_there));
    let (heads, closed, found) = futures_util::future::join3(
        lock_heads(session, known, &tenants, transaction),
        close_open(session, &outcomes),
        find_events(session, &doubtful),
    )
    .await;
    let (mut heads, mut closed, mut found) = (heads?, closed?, found?);

    // An outcome whose intent is closed may be the very one that closed it, appended twice.
    let is_late =
        |work: &W| outcome_key(work).is_some_and(|key| !closed.contains(&key)) && !work.may_be_there();
    let late = event_keys(works, is_late);
    found.extend(find_events(session, &late).await?);

    let mut done = Vec::with_capacity(works.len());
    let mut written = Vec::with_capacity(works.len());
    for work in works {
        let entry = work.entry();
        let fate = if let Some(receipt) = found.get(&(entry.tenant.as_uuid(), entry.id.as_uuid())) {
            Done::Written(*receipt)
        } else if work.is_withdrawn() {
            Done::Withdrawn
        } else if outcome_key(work).is_some_and(|key| !closed.remove(&key)) {
            Done::AlreadyClosed
        } else {
            let head = heads.get_mut(&entry.tenant.as_uuid()).expect("every tenant's head was locked");
            let next = Next::after(head, entry);
            *head = next.head;
            written.push(next);
            Done::Written(written.last().expect("it was just pushed").receipt())
        };
        done.push(fate);
    }
    write_rows(session, known, &written).await?;
    Ok(done)
}

/// Locks the heads of the tenants, in order, and checks that none has gone backwards.
async fn lock_heads(
    session: &Session,
    known: &Known,
    tenants: &BTreeSet<Uuid>,
    transaction: Transaction,
) -> Result<HashMap<Uuid, Head>, Failure> {
    let unknown: Vec<Uuid> = tenants.iter().filter(|tenant| !known.contains_key(tenant)).copied().collect();
    let tenants: Vec<Uuid> = tenants.iter().copied().collect();
    let client = &session.client;
    // Outside a transaction a new head is committed by itself: it says nothing but that there is no row yet.
    let ensure = async {
        if unknown.is_empty() { Ok(0) } else { client.execute(&session.ensure_heads, &[&unknown]).await }
    };
    let begin = async {
        match transaction {
            Transaction::Begin => client.batch_execute("begin").await,
            Transaction::Continue => Ok(()),
        }
    };
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&tenants];
    let lock = client.query(&session.lock_heads, &params);
    let (ensured, began, rows) = futures_util::future::join3(ensure, begin, lock).await;
    ensured?;
    began?;
    let mut heads = HashMap::with_capacity(tenants.len());
    for row in rows? {
        let (tenant, seq): (Uuid, i64) = (row.get(0), row.get(1));
        let head = Head {
            seq: seq.unsigned_abs(),
            at_us: row.get::<_, i64>(2).unsigned_abs(),
            hash: hash(&row, 3)?,
        };
        heads.insert(tenant, head);
    }
    for tenant in tenants {
        let least = known.get(&tenant).copied().unwrap_or(0);
        if heads.get(&tenant).is_none_or(|head| head.seq < least) {
            return Err(Failure::Row(format!("the chain of tenant {tenant} ends before row {least}")));
        }
    }
    Ok(heads)
}

/// Writes the rows, their open calls and the new heads, and commits.
async fn write_rows(session: &Session, known: &mut Known, rows: &[Next<'_>]) -> Result<(), Failure> {
    let client = &session.client;
    // The last row of each tenant wins.
    let heads: BTreeMap<Uuid, Head> = rows.iter().map(|row| (row.tenant(), row.head)).collect();
    let insert_rows = async {
        if rows.is_empty() {
            return Ok(0);
        }
        let tenants: Vec<Uuid> = rows.iter().map(Next::tenant).collect();
        let seqs: Vec<i64> = rows.iter().map(|row| row.head.seq.cast_signed()).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.head.at_us.cast_signed()).collect();
        let types: Vec<&str> = rows.iter().map(|row| row.entry.event_type.as_ref()).collect();
        let events: Vec<Uuid> = rows.iter().map(|row| row.entry.id.as_uuid()).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|row| row.entry.body.as_bytes()).collect();
        let prevs: Vec<&[u8]> = rows.iter().map(|row| row.prev_hash.as_slice()).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|row| row.head.hash.as_slice()).collect();
        let statement = &session.insert_rows;
        client.execute(statement, &[&tenants, &seqs, &times, &types, &events, &bodies, &prevs, &hashes]).await
    };
    let opens: Vec<(&Entry, Uuid, Uuid)> = rows
        .iter()
        .filter_map(|row| match row.entry.link {
            Link::Intent { correlation, instance } => {
                Some((row.entry, correlation.as_uuid(), instance.as_uuid()))
            }
            Link::Outcome { .. } | Link::Fact => None,
        })
        .collect();
    let insert_open = async {
        if opens.is_empty() {
            return Ok(0);
        }
        let tenants: Vec<Uuid> = opens.iter().map(|(entry, ..)| entry.tenant.as_uuid()).collect();
        let calls: Vec<Uuid> = opens.iter().map(|(_, correlation, _)| *correlation).collect();
        let events: Vec<Uuid> = opens.iter().map(|(entry, ..)| entry.id.as_uuid()).collect();
        let instances: Vec<Uuid> = opens.iter().map(|(.., instance)| *instance).collect();
        let bodies: Vec<&str> = opens.iter().map(|(entry, ..)| entry.body.as_str()).collect();
        client.execute(&session.insert_open, &[&tenants, &calls, &events, &instances, &bodies]).await
    };
    let move_heads = async {
        if heads.is_empty() {
            return Ok(0);
        }
        let tenants: Vec<Uuid> = heads.keys().copied().collect();
        let seqs: Vec<i64> = heads.values().map(|head| head.seq.cast_signed()).collect();
        let times: Vec<i64> = heads.values().map(|head| head.at_us.cast_signed()).collect();
        let hashes: Vec<&[u8]> = heads.values().map(|head| head.hash.as_slice()).collect();
        client.execute(&session.move_heads, &[&tenants, &seqs, &times, &hashes]).await
    };
    // Sent in this order without waiting. The commit of a transaction that has failed rolls back and reports no error, so the
    // other answers count, too.
    let (log, open, moved, commit) =
        join4(insert_rows, insert_open, move_heads, client.batch_execute("commit")).await;
    let counts = [(log?, rows.len()), (open?, opens.len()), (moved?, heads.len())];
    commit?;
    if counts.iter().any(|(written, wanted)| usize::try_from(*written) != Ok(*wanted)) {
        // Somebody has put a trigger or a rule in the way. Nothing that may not be there is acknowledged.
        return Err(Failure::Server("it wrote fewer rows than it was given".to_owned()));
    }
    known.extend(heads.iter().map(|(tenant, head)| (*tenant, head.seq)));
    Ok(())
}

/// An event with its place in the chain.
#[derive(Debug)]
struct Next<'a> {
    entry: &'a Entry,
    prev_hash: [u8; 32],
    head: Head,
}

impl<'a> Next<'a> {
    fn after(head: &Head, entry: &'a Entry) -> Self {
        let next = head.next(entry.tenant, &entry.event_type, entry.id, entry.body.as_bytes(), now_us());
        Self { entry, prev_hash: head.hash, head: next }
    }

    fn tenant(&self) -> Uuid {
        self.entry.tenant.as_uuid()
    }

    fn receipt(&self) -> Receipt {
        Receipt { tenant: self.entry.tenant, seq: self.head.seq, hash: self.head.hash }
    }
}

type Keys = (Vec<Uuid>, Vec<Uuid>);

async fn close_open(session: &Session, (tenants, calls): &Keys) -> Result<HashSet<(Uuid, Uuid)>, Error> {
    if tenants.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = session.client.query(&session.close_open, &[tenants, calls]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn find_events(session: &Session, (tenants, events): &Keys) -> Result<Lookup, Failure> {
    if tenants.is_empty() {
        return Ok(Lookup::new());
    }
    let rows = session.client.query(&session.find_events, &[tenants, events]).await?;
    let found = rows.iter().map(|row| {
        let (tenant, seq): (Uuid, i64) = (row.get(0), row.get(2));
        let hash = hash(row, 3)?;
        let receipt = Receipt { tenant: TenantId::from_uuid(tenant), seq: seq.unsigned_abs(), hash };
        Ok(((tenant, row.get(1)), receipt))
    });
    found.collect()
}

fn hash(row: &Row, column: usize) -> Result<[u8; 32], Failure> {
    let bytes: &[u8] = row.get(column);
    bytes.try_into().map_err(|_| Failure::Row("a hash is not 32 bytes long".to_owned()))
}

fn outcome_key(work: &impl Work) -> Option<(Uuid, Uuid)> {
    match work.entry().link {
        Link::Outcome { correlation } => Some((work.entry().tenant.as_uuid(), correlation.as_uuid())),
        Link::Intent { .. } | Link::Fact => None,
    }
}

fn event_keys<W: Work>(works: &[W], wanted: impl Fn(&W) -> bool) -> Keys {
    let entries = works.iter().filter(|work| wanted(work)).map(Work::entry);
    keys(entries.map(|entry| (entry.tenant.as_uuid(), entry.id.as_uuid())))
}

fn keys(pairs: impl Iterator<Item = (Uuid, Uuid)>) -> Keys {
    pairs.unzip()
}

/// Microseconds since 1970. A clock before that counts as 1: the schema wants a positive time.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).max(1)
}
