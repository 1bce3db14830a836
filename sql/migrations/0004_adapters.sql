-- Adapters that an admin configures (SPEC §8). Each is also a row of `targets`; the id is the target's.
create table mcp_adapters (
    tenant_id      uuid not null,
    target_id      uuid not null,
    adapter_type   text not null check (adapter_type in ('proxmox', 'github', 'gitea')),
    -- Base URL, trust and options. Never a credential.
    config         jsonb not null,
    -- Where the credential lies. The value is behind the secret provider.
    secret_ref     text not null,
    -- What the last check found; `never_verified` when an admin saved it without one.
    validated      text not null check (validated in ('ok', 'partial', 'failed', 'never_verified')),
    -- What the upstream said of itself: product, version, expiry of the token.
    facts          jsonb not null default '{}',
    -- Rises with every change, and is part of every cache key.
    config_version bigint not null default 1,
    checked_at     timestamptz,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    primary key (tenant_id, target_id),
    foreign key (tenant_id, target_id) references targets (tenant_id, target_id)
);
alter table mcp_adapters enable row level security;
alter table mcp_adapters force row level security;
create policy mcp_adapters_of_tenant on mcp_adapters to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
grant select, insert, update, delete on mcp_adapters to coreci_app;
