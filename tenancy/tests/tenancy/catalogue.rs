//! What the catalogue says about every table, view, function and role, so that a new one cannot come without its walls.

use tenancy::testing::TestDatabase;
use tokio_postgres::Client;

/// Each query returns one line per defect.
const RULES: [(&str, &str); 10] = [
    (
        "a table without a tenant",
        "select c.relname::text from pg_class c where c.relnamespace = 'coreci'::regnamespace
           and c.relkind in ('r', 'p') and c.relname <> 'schema_migrations'
           and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id'
                             and a.attnotnull)",
    ),
    (
        "row-level security is not on and forced",
        "select c.relname::text from pg_class c where c.relnamespace = 'coreci'::regnamespace
           and c.relkind in ('r', 'p') and c.relname <> 'schema_migrations'
           and not (c.relrowsecurity and c.relforcerowsecurity)",
    ),
    (
        "no policy ties the application to its tenant",
        "select c.relname::text from pg_class c where c.relnamespace = 'coreci'::regnamespace
           and c.relkind in ('r', 'p') and c.relname <> 'schema_migrations'
           and not exists (select from pg_policies p where p.schemaname = 'coreci' and p.tablename = c.relname
                             and 'coreci_app' = any (p.roles))",
    ),
    (
        "a policy lacks USING or WITH CHECK",
        "select p.tablename || '.' || p.policyname from pg_policies p where p.schemaname = 'coreci'
           and (p.cmd in ('ALL', 'SELECT', 'UPDATE', 'DELETE') and p.qual is null
             or p.cmd in ('ALL', 'INSERT', 'UPDATE') and p.with_check is null)",
    ),
    (
        "a policy of the application is not about its tenant, or one is for everybody",
        "select p.tablename || '.' || p.policyname from pg_policies p where p.schemaname = 'coreci'
           and ('public' = any (p.roles)
             or 'coreci_app' = any (p.roles)
                and (coalesce(p.qual, p.with_check) not like '%(tenant_id = current_tenant())%'
                  or coalesce(p.with_check, p.qual) not like '%(tenant_id = current_tenant())%'))",
    ),
    (
        "a unique key does not start with the tenant",
        "select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
         where c.relnamespace = 'coreci'::regnamespace and i.indisunique and c.relname <> 'schema_migrations'
           and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum = i.indkey[0]
                             and a.attname = 'tenant_id')",
    ),
    (
        "a foreign key does not start with the tenant on both sides",
        "select k.conname::text from pg_constraint k where k.contype = 'f'
           and k.connamespace = 'coreci'::regnamespace
           and not (exists (select from pg_attribute a where a.attrelid = k.conrelid and a.attnum = k.conkey[1]
                              and a.attname = 'tenant_id')
                and exists (select from pg_attribute a where a.attrelid = k.confrelid and a.attnum = k.confkey[1]
                              and a.attname = 'tenant_id'))",
    ),
    (
        "a view runs with its owner's rights",
        "select c.relname::text from pg_class c where c.relnamespace = 'coreci'::regnamespace
           and (c.relkind = 'm' or c.relkind = 'v'
                and not coalesce(c.reloptions @> '{security_invoker=true}', false))",
    ),
    (
        "a SECURITY DEFINER function is not the lookup role's, or has no fixed search_path",
        "select p.oid::regprocedure::text from pg_proc p
         where p.pronamespace = 'coreci'::regnamespace and p.prosecdef
           and not (pg_get_userbyid(p.proowner) = 'coreci_lookup'
                    and exists (select from unnest(p.proconfig) s where s = 'search_path=coreci, pg_temp'))",
    ),
    (
        "a runtime role is strong, or owns something",
        "select r.rolname::text from pg_roles r where r.rolname in ('coreci_app', 'coreci_audit', 'coreci_lookup')
           and (r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication
             or exists (select from pg_auth_members m where m.member = r.oid)
             or exists (select from pg_class c where c.relowner = r.oid)
             or exists (select from pg_namespace n where n.nspowner = r.oid))",
    ),
];

async fn findings(client: &Client) -> Vec<String> {
    // Policies are shown with names as short as the search path allows.
    client.batch_execute("set search_path = coreci").await.unwrap();
    let mut findings = Vec::new();
    for (rule, sql) in RULES {
        for row in client.query(sql, &[]).await.unwrap() {
            findings.push(format!("{rule}: {}", row.get::<_, String>(0)));
        }
    }
    findings
}

// proves: C-C08, C-C10, C-C11, DB-02, DB-03
#[tokio::test]
async fn the_schema_has_all_its_walls() {
    let database = TestDatabase::new().await;

    assert_eq!(findings(&database.admin_client().await).await, Vec::<String>::new());
}

// proves: C-C08, C-C10, C-C11
#[tokio::test]
async fn each_missing_wall_is_found() {
    let database = TestDatabase::new().await;
    let admin = database.admin_client().await;
    admin.batch_execute("set search_path = coreci").await.unwrap();
    for (planted, rule) in [
        ("create table bad (id int)", "a table without a tenant"),
        ("create table bad (tenant_id uuid not null)", "row-level security is not on"),
        ("create table bad (tenant_id uuid not null)", "no policy ties"),
        ("alter table targets no force row level security", "row-level security is not on"),
        ("create policy bad on targets for insert to coreci_app", "a policy lacks"),
        (
            "create policy bad on targets to coreci_app using (true) with check (true)",
            "a policy of the application",
        ),
        ("create policy bad on targets using (tenant_id = current_tenant())", "a policy of the application"),
        ("create unique index on targets (hostname)", "a unique key"),
        ("create table bad (tenant_id uuid not null, k uuid unique)", "a unique key"),
        (
            "create unique index x on targets (target_id);
             create table bad (tenant_id uuid not null, t uuid references targets (target_id))",
            "a foreign key",
        ),
        ("create view bad as select * from targets", "a view runs"),
        ("create materialized view bad as select 1", "a view runs"),
        (
            "create function bad() returns int language sql security definer as 'select 1'",
            "a SECURITY DEFINER",
        ),
        ("alter function lookup_tenants() reset search_path", "a SECURITY DEFINER"),
        ("alter table targets owner to coreci_app", "a runtime role"),
    ] {
        admin.batch_execute("begin").await.unwrap();
        admin.batch_execute(planted).await.unwrap();
        let findings = findings(&admin).await;
        admin.batch_execute("rollback").await.unwrap();

        assert!(findings.iter().any(|one| one.starts_with(rule)), "{planted}: only found {findings:?}");
    }
}

// proves: DB-02, DB-06, DB-09
#[tokio::test]
async fn the_roles_log_in_as_themselves_and_can_do_little() {
    let database = TestDatabase::new().await;
    for role in ["coreci_app", "coreci_audit", "coreci_migrator"] {
        let client = database.connect_as(role).await;
        let row = client
            .query_one("select current_setting('is_superuser'), session_user::text", &[])
            .await
            .unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("off", role));
    }
    for (role, forbidden) in [
        ("coreci_app", "create table coreci.mine (tenant_id uuid)"),
        ("coreci_app", "create table public.mine (tenant_id uuid)"),
        ("coreci_app", "create temporary table mine (tenant_id uuid)"),
        ("coreci_app", "set role coreci_lookup"),
        ("coreci_app", "set session_replication_role = replica"),
        ("coreci_app", "alter table coreci.targets disable row level security"),
        ("coreci_app", "delete from coreci.tenants"),
        ("coreci_app", "select from coreci.audit_outbox"),
        ("coreci_app", "delete from coreci.audit_log"),
        ("coreci_audit", "select from coreci.tenants"),
        ("coreci_audit", "select from coreci.api_keys"),
        ("coreci_audit", "update coreci.audit_log set seq = 1"),
        ("coreci_audit", "select coreci.lookup_tenants()"),
        ("coreci_migrator", "create role mine"),
    ] {
        let client = database.connect_as(role).await;
        let error = client.batch_execute(forbidden).await.expect_err(forbidden);
        assert_eq!(error.code().unwrap().code(), "42501", "{role}: {forbidden}: {error}");
    }
}
