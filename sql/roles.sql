-- Runs as an administrator (a role that may create roles), once per database, and may run again.
-- Passwords are set by the caller: they never stand in a file.
do $$
begin
    if not exists (select from pg_roles where rolname = 'coreci_migrator') then
        create role coreci_migrator login noinherit nosuperuser nocreatedb nocreaterole nobypassrls;
    end if;
    if not exists (select from pg_roles where rolname = 'coreci_app') then
        create role coreci_app login noinherit nosuperuser nocreatedb nocreaterole nobypassrls;
    end if;
    if not exists (select from pg_roles where rolname = 'coreci_audit') then
        create role coreci_audit login noinherit nosuperuser nocreatedb nocreaterole nobypassrls;
    end if;
    if not exists (select from pg_roles where rolname = 'coreci_lookup') then
        create role coreci_lookup nologin noinherit nosuperuser nocreatedb nocreaterole nobypassrls;
    end if;
end
$$;

-- The migrator hands its lookup functions to coreci_lookup, so it must be able to become that role.
grant coreci_lookup to coreci_migrator;

-- Nothing is granted to the world: no temporary tables, no objects in public.
do $$
begin
    execute format('revoke all on database %I from public', current_database());
    execute format('grant connect on database %I to coreci_migrator, coreci_app, coreci_audit', current_database());
end
$$;
revoke all on schema public from public;

-- Handing the schema to the migrator takes being able to become it. A superuser is; the administrator of a managed
-- database is not, and joins for this one statement.
do $$
declare
    joins boolean := not pg_has_role(current_user, 'coreci_migrator',
        case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end);
begin
    if not exists (select from pg_namespace where nspname = 'coreci') then
        if joins then
            execute format('grant coreci_migrator to %I', current_user);
        end if;
        create schema coreci authorization coreci_migrator;
        if joins then
            execute format('revoke coreci_migrator from %I', current_user);
        end if;
    end if;
end
$$;

-- A role's timeouts are a property of the role, so that a forgotten setting in a client cannot lift them.
alter role coreci_app set search_path = coreci;
alter role coreci_app set statement_timeout = '10s';
alter role coreci_app set lock_timeout = '2s';
alter role coreci_app set idle_in_transaction_session_timeout = '15s';
alter role coreci_audit set search_path = coreci;
alter role coreci_audit set statement_timeout = '10s';
alter role coreci_audit set lock_timeout = '2s';
alter role coreci_audit set idle_in_transaction_session_timeout = '15s';
alter role coreci_migrator set search_path = coreci;
alter role coreci_migrator set lock_timeout = '2s';
