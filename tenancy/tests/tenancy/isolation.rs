//! Row-level security, in SQL, as `coreci_app` itself: no store is involved that could be careful on its behalf.

use tenancy::testing::TestDatabase;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// Two tenants with a row in every table, and a session of the application.
struct World {
    database: TestDatabase,
    app: Client,
    tables: Vec<Table>,
    ours: Uuid,
    theirs: Uuid,
}

struct Table {
    name: String,
    /// Columns that an insert may name.
    columns: String,
    may_select: bool,
    may_insert: bool,
    may_update: bool,
    may_delete: bool,
    /// A row of the other tenant, which no insert may add.
    their_row: serde_json::Value,
}

impl World {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let (ours, theirs) = (Uuid::new_v4(), Uuid::new_v4());
        let admin = database.admin_client().await;
        admin.batch_execute("set search_path = coreci").await.unwrap();
        for tenant in [ours, theirs] {
            let sql = include_str!("seed.sql").replace("$T", &tenant.to_string());
            admin.batch_execute(&sql).await.unwrap();
        }
        let tables = tables(&admin, theirs).await;
        let app = database.connect_as("coreci_app").await;
        Self { database, app, tables, ours, theirs }
    }

    /// Everything that the tenant `ours`, or a session without a tenant, can do to what is not its own.
    async fn findings(&self, tenant: Option<Uuid>) -> Vec<String> {
        let mut findings = Vec::new();
        for table in &self.tables {
            self.reads(table, tenant, &mut findings).await;
            self.writes(table, tenant, &mut findings).await;
        }
        findings
    }

    async fn reads(&self, table: &Table, tenant: Option<Uuid>, findings: &mut Vec<String>) {
        let name = &table.name;
        if !table.may_select {
            return;
        }
        self.begin(tenant).await;
        let sql = format!("select count(*) filter (where tenant_id = $1), count(*) from {name}");
        let row = self.app.query_one(&sql, &[&self.theirs]).await.unwrap();
        self.app.batch_execute("rollback").await.unwrap();
        let (foreign, all): (i64, i64) = (row.get(0), row.get(1));
        if foreign != 0 {
            findings.push(format!("{name}: a foreign row is visible"));
        }
        // Hiding everything would pass, too: our own row has to be there, and nothing without a tenant.
        if all != i64::from(tenant.is_some()) + foreign {
            findings.push(format!("{name}: {all} rows are visible"));
        }
    }

    async fn writes(&self, table: &Table, tenant: Option<Uuid>, findings: &mut Vec<String>) {
        let Table { name, columns, .. } = table;
        let theirs = self.theirs;
        if table.may_insert {
            let sql = format!(
                "insert into {name} ({columns}) select {columns} \
                 from jsonb_populate_record(null::{name}, '{}'::jsonb)",
                table.their_row
            );
            self.must_be_refused(tenant, &sql, findings).await;
        }
        if table.may_update {
            let sql = format!("update {name} set tenant_id = tenant_id where tenant_id = '{theirs}'");
            self.must_match_nothing(tenant, &sql, findings).await;
            if tenant.is_some() {
                let sql = format!("update {name} set tenant_id = '{theirs}'");
                self.must_be_refused(tenant, &sql, findings).await;
            }
        }
        if table.may_delete {
            let sql = format!("delete from {name} where tenant_id = '{theirs}'");
            self.must_match_nothing(tenant, &sql, findings).await;
        }
    }

    async fn must_be_refused(&self, tenant: Option<Uuid>, sql: &str, findings: &mut Vec<String>) {
        self.begin(tenant).await;
        match self.app.execute(sql, &[]).await {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {}
            other => findings.push(format!("{sql}: {other:?}")),
        }
        self.app.batch_execute("rollback").await.unwrap();
    }

    async fn must_match_nothing(&self, tenant: Option<Uuid>, sql: &str, findings: &mut Vec<String>) {
        self.begin(tenant).await;
        match self.app.execute(sql, &[]).await {
            Ok(0) => {}
            other => findings.push(format!("{sql}: {other:?}")),
        }
        self.app.batch_execute("rollback").await.unwrap();
    }

    async fn begin(&self, tenant: Option<Uuid>) {
        self.app.batch_execute("begin").await.unwrap();
        if let Some(tenant) = tenant {
            let set = "select set_config('app.tenant_id', $1, true)";
            self.app.execute(set, &[&tenant.to_string()]).await.unwrap();
        }
    }
}

async fn tables(admin: &Client, theirs: Uuid) -> Vec<Table> {
    let sql = "select c.relname::text,
                      (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
                       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                         and a.attgenerated = '' and a.attidentity <> 'a'),
                      has_table_privilege('coreci_app', c.oid, 'select'),
                      has_table_privilege('coreci_app', c.oid, 'insert'),
                      has_table_privilege('coreci_app', c.oid, 'update'),
                      has_table_privilege('coreci_app', c.oid, 'delete')
               from pg_class c join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
               where c.relnamespace = 'coreci'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
               order by 1";
    let mut tables = Vec::new();
    for row in admin.query(sql, &[]).await.unwrap() {
        let name: String = row.get(0);
        let sql = format!("select to_jsonb(t) from {name} t where tenant_id = $1");
        let their_row = admin.query_opt(&sql, &[&theirs]).await.unwrap();
        let their_row =
            their_row.unwrap_or_else(|| panic!("{name} has no row in tests/tenancy/seed.sql: add one"));
        tables.push(Table {
            name,
            columns: row.get(1),
            may_select: row.get(2),
            may_insert: row.get(3),
            may_update: row.get(4),
            may_delete: row.get(5),
            their_row: their_row.get(0),
        });
    }
    assert!(tables.len() >= 13, "tables are missing from the search");
    tables
}

// proves: S-01, DB-01, DB-04, DB-05, C-C07
#[tokio::test]
async fn a_tenant_can_neither_see_nor_touch_another_tenants_rows() {
    let world = World::new().await;

    assert_eq!(world.findings(Some(world.ours)).await, Vec::<String>::new());
}

// proves: C-C01, S-03, C-C02
#[tokio::test]
async fn without_a_tenant_nothing_is_visible_and_nothing_can_be_written() {
    let world = World::new().await;

    // First with the setting unknown to the session, then with the empty string that a transaction leaves behind.
    assert_eq!(world.findings(None).await, Vec::<String>::new());
    world.begin(Some(world.ours)).await;
    world.app.batch_execute("commit").await.unwrap();
    assert_eq!(world.findings(None).await, Vec::<String>::new());
    // `set local` outside a transaction is only a warning, and sets nothing.
    world.app.batch_execute(&format!("set local app.tenant_id = '{}'", world.ours)).await.unwrap();
    assert_eq!(world.findings(None).await, Vec::<String>::new());
}

// proves: C-C12
#[tokio::test]
async fn loosening_any_policy_turns_the_isolation_check_red() {
    let world = World::new().await;
    let admin = world.database.admin_client().await;
    let policies = "select tablename::text, policyname::text, cmd, qual, with_check from pg_policies
                    where schemaname = 'coreci' and 'coreci_app' = any (roles)";
    let policies = admin.query(policies, &[]).await.unwrap();
    assert!(policies.len() >= 13);
    admin.batch_execute("set search_path = coreci").await.unwrap();

    for policy in policies {
        let (table, name): (String, String) = (policy.get(0), policy.get(1));
        let (using, check): (Option<String>, Option<String>) = (policy.get(3), policy.get(4));
        let clauses = |using: Option<&str>, check: Option<&str>| {
            let using = using.map(|rule| format!(" using ({rule})")).unwrap_or_default();
            let check = check.map(|rule| format!(" with check ({rule})")).unwrap_or_default();
            format!("alter policy {name} on {table}{using}{check}")
        };
        let loosened = clauses(using.as_ref().map(|_| "true"), check.as_ref().map(|_| "true"));
        admin.batch_execute(&loosened).await.unwrap();
        let findings = world.findings(Some(world.ours)).await;
        admin.batch_execute(&clauses(using.as_deref(), check.as_deref())).await.unwrap();

        assert!(findings.iter().any(|one| one.contains(&table)), "nobody noticed: {loosened}");
    }
    assert_eq!(world.findings(Some(world.ours)).await, Vec::<String>::new());
}

// proves: C-C09
#[tokio::test]
async fn a_reference_to_another_tenants_row_is_like_one_to_nothing() {
    let world = World::new().await;
    let mut answers = Vec::new();
    for user in [world.theirs, Uuid::new_v4()] {
        world.begin(Some(world.ours)).await;
        let sql = "insert into tenant_memberships (tenant_id, user_id, role) values ($1, $2, 'viewer')";
        let error = world.app.execute(sql, &[&world.ours, &user]).await.unwrap_err();
        answers.push(error.code().cloned());
        world.app.batch_execute("rollback").await.unwrap();
    }
    assert_eq!(answers, vec![Some(SqlState::FOREIGN_KEY_VIOLATION); 2]);
}
