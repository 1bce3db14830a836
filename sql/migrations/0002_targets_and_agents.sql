-- What can be looked at, and the relay agents that reach Linux hosts (SPEC §9).
create table targets (
    tenant_id    uuid not null references tenants (tenant_id),
    target_id    uuid not null,
    kind         text not null check (kind in ('ssh', 'proxmox', 'github', 'gitea')),
    name         text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    hostname     text,
    os           text,
    version      text,
    ip           text,
    last_seen_at timestamptz,
    created_at   timestamptz not null default now(),
    removed_at   timestamptz,
    primary key (tenant_id, target_id)
);
-- A removed target keeps its row for the audit trail, and gives its name back.
create unique index targets_by_name on targets (tenant_id, name) where removed_at is null;
alter table targets enable row level security;
alter table targets force row level security;
create policy targets_of_tenant on targets to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, update on targets to coreci_app;

create table agents (
    tenant_id   uuid not null,
    agent_id    uuid not null,
    target_id   uuid not null,
    public_key  bytea not null check (length(public_key) = 32),
    -- Rises with every registration. The newest socket wins; answers of an older one are dropped.
    epoch       bigint not null default 0,
    enrolled_at timestamptz not null default now(),
    enrolled_ip text,
    revoked_at  timestamptz,
    primary key (tenant_id, agent_id),
    foreign key (tenant_id, target_id) references targets (tenant_id, target_id)
);
create index agents_by_id on agents (agent_id);
create index agents_by_target on agents (tenant_id, target_id);
alter table agents enable row level security;
alter table agents force row level security;
create policy agents_of_tenant on agents to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
create policy agents_lookup on agents for select to coreci_lookup using (true);
grant select, insert, update on agents to coreci_app;
grant select (tenant_id, agent_id) on agents to coreci_lookup;

create table enrolments (
    tenant_id    uuid not null references tenants (tenant_id),
    enrolment_id uuid not null,
    token_hash   bytea not null check (length(token_hash) = 32),
    name         text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    created_by   uuid,
    created_at   timestamptz not null default now(),
    expires_at   timestamptz not null,
    used_at      timestamptz,
    primary key (tenant_id, enrolment_id)
);
create index enrolments_by_token on enrolments (token_hash);
alter table enrolments enable row level security;
alter table enrolments force row level security;
create policy enrolments_of_tenant on enrolments to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
create policy enrolments_lookup on enrolments for select to coreci_lookup using (true);
grant select, insert, update on enrolments to coreci_app;
grant select (tenant_id, enrolment_id, token_hash) on enrolments to coreci_lookup;

create table tool_policies (
    tenant_id  uuid primary key references tenants (tenant_id),
    -- Tools switched off. A tenant may take tools away, never add one (INV-5).
    disabled   text[] not null default '{}',
    updated_at timestamptz not null default now()
);
alter table tool_policies enable row level security;
alter table tool_policies force row level security;
create policy tool_policies_of_tenant on tool_policies to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, update on tool_policies to coreci_app;

grant create on schema coreci to coreci_lookup;
create function lookup_agent(wanted uuid) returns setof uuid
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select tenant_id from coreci.agents where agent_id = wanted $$;
create function lookup_enrolment(wanted bytea) returns table (tenant_id uuid, enrolment_id uuid)
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select e.tenant_id, e.enrolment_id from coreci.enrolments e where e.token_hash = wanted $$;
revoke execute on function lookup_agent(uuid), lookup_enrolment(bytea) from public;
grant execute on function lookup_agent(uuid), lookup_enrolment(bytea) to coreci_app;
alter function lookup_agent(uuid) owner to coreci_lookup;
alter function lookup_enrolment(bytea) owner to coreci_lookup;
revoke create on schema coreci from coreci_lookup;
