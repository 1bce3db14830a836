//! The lookups that come before a tenant is known. They go through `SECURITY DEFINER` functions that return ids only;
//! whatever else a caller needs it reads in a [`crate::TenantTx`] of the tenant that was named.

use std::time::Duration;

use mcp_core::id::{AgentId, KeyId, PrincipalId, TenantId};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::TenancyError;
use crate::pool::Tenancy;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// See [`Tenancy::lookup`]. Every method fails with [`TenancyError::DatabaseUnavailable`] when there is no answer within
/// 2 s, and may be dropped at any time.
#[derive(Debug)]
pub struct Lookup<'a> {
    tenancy: &'a Tenancy,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(tenancy: &'a Tenancy) -> Self {
        Self { tenancy }
    }

    /// All tenants, whatever their status, in the order of their ids.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn tenants(&self) -> Result<Vec<TenantId>, TenancyError> {
        let rows = self.ask("select lookup_tenants()", &[]).await?;
        Ok(rows.iter().map(|row| TenantId::from_uuid(row.get(0))).collect())
    }

    /// The tenant with this slug.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn tenant_by_slug(&self, slug: &str) -> Result<Option<TenantId>, TenancyError> {
        let rows = self.ask("select lookup_tenant_by_slug($1)", &[&slug]).await?;
        Ok(only(&rows).map(|row| TenantId::from_uuid(row.get(0))))
    }

    /// Whose API key has this SHA-256. Whether it is still good is for the tenant's transaction to say.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn api_key(&self, hash: &[u8; 32]) -> Result<Option<(TenantId, KeyId)>, TenancyError> {
        let rows = self.ask("select tenant_id, key_id from lookup_api_key($1)", &[&hash.as_slice()]).await?;
        Ok(only(&rows).map(|row| (TenantId::from_uuid(row.get(0)), KeyId::from_uuid(row.get(1)))))
    }

    /// The tenant of an agent, revoked ones included.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn agent(&self, agent: AgentId) -> Result<Option<TenantId>, TenancyError> {
        let rows = self.ask("select lookup_agent($1)", &[&agent.as_uuid()]).await?;
        Ok(only(&rows).map(|row| TenantId::from_uuid(row.get(0))))
    }

    /// The tenant and enrolment whose token has this SHA-256, used and expired ones included.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn enrolment(&self, hash: &[u8; 32]) -> Result<Option<(TenantId, Uuid)>, TenancyError> {
        let sql = "select tenant_id, enrolment_id from lookup_enrolment($1)";
        let rows = self.ask(sql, &[&hash.as_slice()]).await?;
        Ok(only(&rows).map(|row| (TenantId::from_uuid(row.get(0)), row.get(1))))
    }

    /// The tenant and user that this subject of this issuer is linked to, in whatever state they are.
    ///
    /// # Errors
    /// See [`Lookup`].
    pub async fn identity(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<(TenantId, PrincipalId)>, TenancyError> {
        let sql = "select tenant_id, user_id from lookup_identity($1, $2)";
        let rows = self.ask(sql, &[&issuer, &subject]).await?;
        Ok(only(&rows).map(|row| (TenantId::from_uuid(row.get(0)), PrincipalId::from_uuid(row.get(1)))))
    }

    async fn ask(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, TenancyError> {
        let answer = async {
            let object = self.tenancy.acquire().await?;
            let statement = object.prepare_cached(sql).await?;
            Ok(object.query(&statement, params).await?)
        };
        timeout(LOOKUP_TIMEOUT, answer).await.unwrap_or_else(|_| Err(self.tenancy.too_late()))
    }
}

/// The row, when there is exactly one. No constraint spans tenants (it would tell one about another), so a key that two
/// tenants hold is possible in theory; it then names neither.
fn only(rows: &[Row]) -> Option<&Row> {
    match rows {
        [row] => Some(row),
        _ => None,
    }
}
