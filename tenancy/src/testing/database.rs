//! One database of one test.

use std::time::Duration;

use mcp_core::id::TenantId;
use tokio_postgres::{Client, Config};
use ulid::Ulid;

use super::cluster::{Cluster, block_on, open, run};
use crate::connections::Connections;
use crate::pool::{PoolSize, Tenancy};
use crate::session;
use crate::stores::tenant::tenant_create;

/// A database of its own for one test, dropped with this value.
///
/// Everything here panics instead of returning errors: a test has nothing better to do with them.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    tenancy: Tenancy,
}

impl TestDatabase {
    /// A database with all migrations applied.
    pub async fn new() -> Self {
        Self::from_template(|cluster| &cluster.migrated_template).await
    }

    /// A database with roles and schema, but without a single table.
    pub async fn empty() -> Self {
        Self::from_template(|cluster| &cluster.empty_template).await
    }

    /// The application's own way in: a pool of `coreci_app`.
    #[must_use]
    pub fn tenancy(&self) -> Tenancy {
        self.tenancy.clone()
    }

    /// A pool of the given size, for tests of the pool itself.
    #[must_use]
    pub fn tenancy_of(&self, size: PoolSize) -> Tenancy {
        Tenancy::connect(&self.config("coreci_app"), size)
    }

    /// Settings for all roles.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections {
            admin: Some(self.config("coreci_admin")),
            migrator: Some(self.config("coreci_migrator")),
            app: self.config("coreci_app"),
            audit: self.config("coreci_audit"),
        }
    }

    /// Settings for one role. The server trusts whoever reaches its socket, which only this user can.
    #[must_use]
    pub fn config(&self, role: &str) -> Config {
        Cluster::get().config(role, &self.name)
    }

    /// A session of one role.
    pub async fn connect_as(&self, role: &str) -> Client {
        open(&self.config(role)).await
    }

    /// A session of the superuser, which sees and changes everything.
    pub async fn admin_client(&self) -> Client {
        self.connect_as("coreci_admin").await
    }

    /// Creates a tenant; its name is its slug.
    pub async fn create_tenant(&self, slug: &str) -> TenantId {
        let created = tenant_create(&self.tenancy, slug, slug, "test").await;
        created.unwrap_or_else(|error| panic!("create tenant {slug}: {error:?}")).tenant_id
    }

    /// The database's name in the test server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn from_template(template: fn(&Cluster) -> &str) -> Self {
        let cluster = tokio::task::spawn_blocking(Cluster::get).await.expect("the test server starts");
        let name = format!("test_{}", Ulid::generate().to_string().to_lowercase());
        let admin = cluster.admin("postgres").await;
        run(&admin, &format!("create database {name} template {}", template(cluster))).await;
        // Grants on a database are not copied from its template.
        run(&admin, &format!("revoke all on database {name} from public")).await;
        let roles = "coreci_migrator, coreci_app, coreci_audit";
        run(&admin, &format!("grant connect on database {name} to {roles}")).await;
        let tenancy = Tenancy::connect(&cluster.config("coreci_app", &name), PoolSize::new(8));
        Self { name, tenancy }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let name = &self.name;
        // Best effort: the whole server goes away soon.
        block_on(async move {
            let config = Cluster::get().config("coreci_admin", "postgres");
            if let Ok(admin) = session::open(&config, Duration::from_secs(5)).await {
                let _ = admin.batch_execute(&format!("drop database if exists {name} with (force)")).await;
            }
        });
    }
}
