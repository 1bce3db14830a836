//! One connection as `coreci_audit` with its prepared statements.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::failure::Failure;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Acknowledged means durable, whatever the server's default is; a stronger setting is left alone. The planner has no
/// statistics of tables that turn over within seconds; what is looked up here always goes by a key.
const SETTINGS: &str = "
    do $$ begin
        if current_setting('synchronous_commit') = 'off' then set synchronous_commit = on; end if;
    end $$;
    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off";

const ENSURE_HEADS: &str = "
    insert into audit_heads (tenant_id, seq, at_us, hash)
    select t, 0, 0, decode(repeat('00', 32), 'hex') from unnest($1::uuid[]) t order by t
    on conflict do nothing";
const LOCK_HEADS: &str = "
    select tenant_id, seq, at_us, hash from audit_heads where tenant_id = any($1) order by tenant_id for update";
const CLOSE_OPEN: &str = "
    delete from audit_open o using unnest($1::uuid[], $2::uuid[]) c (tenant_id, correlation_id)
    where o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
    returning o.tenant_id, o.correlation_id";
const FIND_EVENTS: &str = "
    select l.tenant_id, l.event_id, l.seq, l.hash
    from unnest($1::uuid[], $2::uuid[]) e (tenant_id, event_id)
    join audit_log l on l.tenant_id = e.tenant_id and l.event_id = e.event_id";
const INSERT_ROWS: &str = "
    insert into audit_log (tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash)
    select * from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[], $5::uuid[], $6::bytea[], $7::bytea[],
        $8::bytea[])";
const INSERT_OPEN: &str = "
    insert into audit_open (tenant_id, correlation_id, event_id, instance, body)
    select t, c, e, i, b::jsonb from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[]) o (t, c, e, i, b)";
const MOVE_HEADS: &str = "
    update audit_heads h set seq = n.seq, at_us = n.at_us, hash = n.hash
    from unnest($1::uuid[], $2::int8[], $3::int8[], $4::bytea[]) n (tenant_id, seq, at_us, hash)
    where h.tenant_id = n.tenant_id";

/// An open connection. Dropping it ends the session; a transaction that was under way is then of unknown outcome.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    pub(crate) ensure_heads: Statement,
    pub(crate) lock_heads: Statement,
    pub(crate) close_open: Statement,
    pub(crate) find_events: Statement,
    pub(crate) insert_rows: Statement,
    pub(crate) insert_open: Statement,
    pub(crate) move_heads: Statement,
}

impl Session {
    pub(crate) async fn open(config: &Config) -> Result<Self, Failure> {
        let opened = tokio::time::timeout(CONNECT_LIMIT, Self::connect(config)).await;
        opened.unwrap_or_else(|_| Err(Failure::Lost("the server did not answer in time".to_owned())))
    }

    /// Waits for the end of the connection.
    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.driver).await;
    }

    async fn connect(config: &Config) -> Result<Self, Failure> {
        let (client, connection) = config.connect(NoTls).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection of the audit writer ended");
            }
        });
        client.batch_execute(SETTINGS).await?;
        let read_only = client.query_one("select current_setting('transaction_read_only')", &[]).await?;
        if read_only.get::<_, &str>(0) == "on" {
            return Err(Failure::Server("it is read-only".to_owned()));
        }
        let statements =
            [ENSURE_HEADS, LOCK_HEADS, CLOSE_OPEN, FIND_EVENTS, INSERT_ROWS, INSERT_OPEN, MOVE_HEADS];
        let prepared = statements.map(|sql| client.prepare(sql));
        let prepared: Vec<Statement> = futures_util::future::try_join_all(prepared).await?;
        let [ensure_heads, lock_heads, close_open, find_events, insert_rows, insert_open, move_heads] =
            <[Statement; 7]>::try_from(prepared).expect("as many as were asked for");
        Ok(Self {
            client,
            driver,
            ensure_heads,
            lock_heads,
            close_open,
            find_events,
            insert_rows,
            insert_open,
            move_heads,
        })
    }
}
