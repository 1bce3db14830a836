-- The audit log (SPEC §10). One chain per tenant; the nil tenant is the system chain.
-- Tenants are not referenced here: the chain outlives the tenant it speaks of.

-- `convert_from` is only stable, so a generated column refuses it. The encoding is always UTF-8 (the writer made the
-- bytes), which makes this wrapper immutable in fact.
create function audit_body_json(body bytea) returns jsonb
    language sql immutable strict
    set search_path = pg_catalog
    as $$ select pg_catalog.convert_from(body, 'UTF8')::jsonb $$;

create table audit_log (
    tenant_id  uuid not null,
    seq        bigint not null check (seq > 0),
    at_us      bigint not null check (at_us > 0),
    event_type text not null,
    event_id   uuid not null,
    body       bytea not null,
    prev_hash  bytea not null check (length(prev_hash) = 32),
    hash       bytea not null check (length(hash) = 32),
    body_json  jsonb generated always as (audit_body_json(body)) stored,
    primary key (tenant_id, seq),
    constraint audit_log_event unique (tenant_id, event_id)
);
alter table audit_log enable row level security;
alter table audit_log force row level security;
create policy audit_log_of_tenant on audit_log for select to coreci_app
    using (tenant_id = current_tenant());
create policy audit_log_writer on audit_log to coreci_audit using (true) with check (true);
grant select on audit_log to coreci_app;
grant select, insert on audit_log to coreci_audit;

create function audit_log_is_append_only() returns trigger
    language plpgsql
    set search_path = pg_catalog
    as $$ begin raise exception 'audit_log is append-only' using errcode = '42501'; end $$;
create trigger audit_log_no_change before update or delete on audit_log
    for each row execute function audit_log_is_append_only();
create trigger audit_log_no_truncate before truncate on audit_log
    for each statement execute function audit_log_is_append_only();

-- The last link of each chain. Locking its row is what keeps two writers from forking the chain.
create table audit_heads (
    tenant_id uuid primary key,
    seq       bigint not null check (seq >= 0),
    at_us     bigint not null check (at_us >= 0),
    hash      bytea not null check (length(hash) = 32)
)
-- A busy head is updated hundreds of times a second: leave room for its versions on its own page.
with (fillfactor = 50);
alter table audit_heads enable row level security;
alter table audit_heads force row level security;
create policy audit_heads_of_tenant on audit_heads for select to coreci_app
    using (tenant_id = current_tenant());
create policy audit_heads_writer on audit_heads to coreci_audit using (true) with check (true);
grant select on audit_heads to coreci_app;
grant select, insert, update on audit_heads to coreci_audit;

create function audit_heads_only_grow() returns trigger
    language plpgsql
    set search_path = pg_catalog
    as $$
begin
    if tg_op = 'UPDATE' and new.tenant_id = old.tenant_id and new.seq > old.seq then
        return new;
    end if;
    raise exception 'an audit head only moves forward' using errcode = '42501';
end
$$;
create trigger audit_heads_no_change before update or delete on audit_heads
    for each row execute function audit_heads_only_grow();
create trigger audit_heads_no_truncate before truncate on audit_heads
    for each statement execute function audit_heads_only_grow();

-- Intents whose outcome is not written yet: inserted with the intent, deleted with the outcome, so that exactly one
-- outcome can follow. It is an index over the chain, not a record: the chain alone decides what is true.
create table audit_open (
    tenant_id      uuid not null,
    correlation_id uuid not null,
    event_id       uuid not null,
    -- The process that wrote the intent and owes the outcome.
    instance       uuid not null,
    body           jsonb not null,
    primary key (tenant_id, correlation_id)
);
alter table audit_open enable row level security;
alter table audit_open force row level security;
create policy audit_open_of_tenant on audit_open for select to coreci_app
    using (tenant_id = current_tenant());
create policy audit_open_writer on audit_open to coreci_audit using (true) with check (true);
grant select on audit_open to coreci_app;
grant select, insert, delete on audit_open to coreci_audit;

-- Events of a state change, inserted in the change's own transaction and drained into the chain in order.
create table audit_outbox (
    tenant_id  uuid not null,
    position   bigint generated always as identity,
    event_id   uuid not null,
    -- Calls have an intent and an outcome, written by the writer itself; nothing may pass for one by this way.
    event_type text not null check (event_type <> 'adapter.capability_invoked' and octet_length(event_type) <= 100),
    -- The outermost value of an event is an object, and no larger than those that are appended directly.
    body       jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 262144),
    primary key (tenant_id, position)
);
create index audit_outbox_in_order on audit_outbox (position);
alter table audit_outbox enable row level security;
alter table audit_outbox force row level security;
create policy audit_outbox_of_tenant on audit_outbox for insert to coreci_app
    with check (tenant_id = current_tenant());
create policy audit_outbox_writer on audit_outbox to coreci_audit using (true) with check (true);
grant insert on audit_outbox to coreci_app;
grant select, update, delete on audit_outbox to coreci_audit;
