-- Tenants, the people and services in them, and their API keys (SPEC §11).
-- The tenant of the transaction; null when none is set, so that every policy then matches nothing.
create function current_tenant() returns uuid
    language sql stable
    set search_path = pg_catalog
    as $$ select nullif(pg_catalog.current_setting('app.tenant_id', true), '')::uuid $$;

grant usage on schema coreci to coreci_app, coreci_audit, coreci_lookup;

create table tenants (
    tenant_id  uuid primary key,
    slug       text not null check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name       text not null check (length(name) between 1 and 200),
    status     text not null default 'active' check (status in ('active', 'suspended', 'deleted')),
    created_at timestamptz not null default now()
);
alter table tenants enable row level security;
alter table tenants force row level security;
create policy tenants_of_tenant on tenants to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
create policy tenants_lookup on tenants for select to coreci_lookup using (true);
grant select, insert, update on tenants to coreci_app;
grant select (tenant_id, slug) on tenants to coreci_lookup;

create table users (
    tenant_id  uuid not null references tenants (tenant_id),
    user_id    uuid not null,
    name       text not null check (length(name) between 1 and 200),
    kind       text not null check (kind in ('person', 'service')),
    created_at timestamptz not null default now(),
    primary key (tenant_id, user_id),
    unique (tenant_id, name)
);
alter table users enable row level security;
alter table users force row level security;
create policy users_of_tenant on users to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, update on users to coreci_app;

create table tenant_memberships (
    tenant_id  uuid not null,
    user_id    uuid not null,
    role       text not null check (role in ('admin', 'operator', 'viewer')),
    created_at timestamptz not null default now(),
    primary key (tenant_id, user_id),
    foreign key (tenant_id, user_id) references users (tenant_id, user_id)
);
alter table tenant_memberships enable row level security;
alter table tenant_memberships force row level security;
create policy tenant_memberships_of_tenant on tenant_memberships to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, update, delete on tenant_memberships to coreci_app;

create table api_keys (
    tenant_id    uuid not null,
    key_id       uuid not null,
    user_id      uuid not null,
    name         text not null check (length(name) between 1 and 200),
    -- SHA-256 of the key. The key itself has 256 random bits, so a plain digest cannot be searched.
    key_hash     bytea not null check (length(key_hash) = 32),
    role         text not null check (role in ('admin', 'operator', 'viewer')),
    -- Null means not narrowed; an empty list means nothing at all.
    tools        text[],
    targets      uuid[],
    created_by   uuid,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    primary key (tenant_id, key_id),
    foreign key (tenant_id, user_id) references users (tenant_id, user_id)
);
create index api_keys_by_hash on api_keys (key_hash);
alter table api_keys enable row level security;
alter table api_keys force row level security;
create policy api_keys_of_tenant on api_keys to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
create policy api_keys_lookup on api_keys for select to coreci_lookup using (true);
grant select, insert, update on api_keys to coreci_app;
grant select (tenant_id, key_id, key_hash) on api_keys to coreci_lookup;

create table idempotency_keys (
    tenant_id    uuid not null references tenants (tenant_id),
    principal_id uuid not null,
    route        text not null,
    key          text not null check (length(key) between 1 and 200),
    request_hash bytea not null check (length(request_hash) = 32),
    status       smallint not null,
    -- The answer without the secret that was shown once.
    response     jsonb not null,
    created_at   timestamptz not null default now(),
    primary key (tenant_id, principal_id, route, key)
);
alter table idempotency_keys enable row level security;
alter table idempotency_keys force row level security;
create policy idempotency_keys_of_tenant on idempotency_keys to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, delete on idempotency_keys to coreci_app;

-- Lookups that come before a tenant is known. They return ids only; whatever else the caller needs it reads
-- inside a transaction of the tenant that the lookup named.
grant create on schema coreci to coreci_lookup;

create function lookup_tenants() returns setof uuid
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select tenant_id from coreci.tenants order by tenant_id $$;
create function lookup_tenant_by_slug(wanted text) returns setof uuid
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select tenant_id from coreci.tenants where slug = wanted $$;
create function lookup_api_key(wanted bytea) returns table (tenant_id uuid, key_id uuid)
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select k.tenant_id, k.key_id from coreci.api_keys k where k.key_hash = wanted $$;

-- Whoever may use the schema could call them otherwise, the audit writer among them.
revoke execute on function lookup_tenants(), lookup_tenant_by_slug(text), lookup_api_key(bytea) from public;
grant execute on function lookup_tenants(), lookup_tenant_by_slug(text), lookup_api_key(bytea) to coreci_app;
alter function lookup_tenants() owner to coreci_lookup;
alter function lookup_tenant_by_slug(text) owner to coreci_lookup;
alter function lookup_api_key(bytea) owner to coreci_lookup;
revoke create on schema coreci from coreci_lookup;
