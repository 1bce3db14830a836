-- Who a user is to an authorization server (SPEC §11): the key is issuer and subject, never an e-mail address.
create table user_identities (
    tenant_id  uuid not null,
    issuer     text not null check (length(issuer) between 1 and 2048),
    subject    text not null check (length(subject) between 1 and 255),
    user_id    uuid not null,
    created_at timestamptz not null default now(),
    primary key (tenant_id, issuer, subject),
    foreign key (tenant_id, user_id) references users (tenant_id, user_id)
);
create index user_identities_by_subject on user_identities (issuer, subject);
alter table user_identities enable row level security;
alter table user_identities force row level security;
create policy user_identities_of_tenant on user_identities to coreci_app
    using (tenant_id = current_tenant()) with check (tenant_id = current_tenant());
create policy user_identities_lookup on user_identities for select to coreci_lookup using (true);
grant select, insert, delete on user_identities to coreci_app;
grant select (tenant_id, issuer, subject, user_id) on user_identities to coreci_lookup;

grant create on schema coreci to coreci_lookup;
create function lookup_identity(wanted_issuer text, wanted_subject text)
    returns table (tenant_id uuid, user_id uuid)
    language sql stable security definer set search_path = coreci, pg_temp
    as $$ select i.tenant_id, i.user_id from coreci.user_identities i
          where i.issuer = wanted_issuer and i.subject = wanted_subject $$;
revoke execute on function lookup_identity(text, text) from public;
grant execute on function lookup_identity(text, text) to coreci_app;
alter function lookup_identity(text, text) owner to coreci_lookup;
revoke create on schema coreci from coreci_lookup;
