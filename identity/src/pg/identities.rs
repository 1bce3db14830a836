//! Who users are to an authorization server.

use mcp_core::id::PrincipalId;
use mcp_core::principal::Principal;
use serde_json::json;
use tenancy::outbox::{new_event_id, outbox_put};
use tenancy::{Tenancy, TenancyError, TenantTx};
use time::OffsetDateTime;
use uuid::Uuid;

use super::members::{actor_word, membership_set, role_from};
use crate::oauth::Subject;
use crate::role::Role;

/// A person, and by whom an issuer means them.
#[derive(Debug, Clone)]
pub struct NewIdentity<'a> {
    /// Name of the person within the tenant, 1 to 200 characters.
    pub name: &'a str,
    /// What they may do.
    pub role: Role,
    /// Who they are to the issuer.
    pub subject: &'a Subject,
}

/// A link as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityRecord {
    /// The person.
    pub user_id: PrincipalId,
    /// Their name.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Who they are to the issuer.
    pub subject: Subject,
    /// Since when.
    pub created_at: OffsetDateTime,
}

/// Links a subject to the person of that name, who is made if there is none, and sets their role, with the event
/// `auth.identity_linked`.
///
/// # Errors
/// [`TenancyError::Conflict`] when the subject is linked already, or the name is that of a service;
/// [`TenancyError::Invalid`] for a name, issuer or subject of a bad length.
pub async fn identity_link(
    tx: &TenantTx,
    new: &NewIdentity<'_>,
    actor: Option<PrincipalId>,
) -> Result<IdentityRecord, TenancyError> {
    let user = person(tx, new.name).await?;
    membership_set(tx, user, new.role).await?;
    let sql = "insert into user_identities (tenant_id, issuer, subject, user_id) values ($1, $2, $3, $4) \
               returning created_at";
    let Subject { issuer, subject } = new.subject;
    let row = tx.query_one(sql, &[&tx.tenant().as_uuid(), issuer, subject, &user.as_uuid()]).await?;
    let body = json!({
        "actor": actor_word(actor), "userId": user, "name": new.name, "role": new.role, "issuer": issuer,
        "subject": subject,
    });
    outbox_put(tx, new_event_id(), "auth.identity_linked", &body).await?;
    Ok(IdentityRecord {
        user_id: user,
        name: new.name.to_owned(),
        role: new.role,
        subject: new.subject.clone(),
        created_at: row.try_get(0)?,
    })
}

/// Takes a link away, with the event `auth.identity_unlinked`. The person stays.
///
/// # Errors
/// [`TenancyError::NotFound`] when the tenant has no such link.
pub async fn identity_unlink(
    tx: &TenantTx,
    subject: &Subject,
    actor: Option<PrincipalId>,
) -> Result<(), TenancyError> {
    let sql = "delete from user_identities where tenant_id = $1 and issuer = $2 and subject = $3 \
               returning user_id";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&tx.tenant().as_uuid(), &subject.issuer, &subject.subject];
    let row = tx.query_one(sql, &params).await?;
    let user = PrincipalId::from_uuid(row.try_get(0)?);
    let body = json!({
        "actor": actor_word(actor), "userId": user, "issuer": subject.issuer, "subject": subject.subject,
    });
    outbox_put(tx, new_event_id(), "auth.identity_unlinked", &body).await
}

/// The tenant's links, by name; at most `limit`.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn identity_list(tx: &TenantTx, limit: u32) -> Result<Vec<IdentityRecord>, TenancyError> {
    let sql = "select u.user_id, u.name, m.role, i.issuer, i.subject, i.created_at \
               from user_identities i \
               join users u on u.tenant_id = i.tenant_id and u.user_id = i.user_id \
               join tenant_memberships m on m.tenant_id = u.tenant_id and m.user_id = u.user_id \
               where i.tenant_id = $1 order by u.name, i.issuer, i.subject limit $2";
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &i64::from(limit)]).await?;
    let record = |row: &tokio_postgres::Row| {
        Ok(IdentityRecord {
            user_id: PrincipalId::from_uuid(row.try_get(0)?),
            name: row.try_get(1)?,
            role: role_from(row, 2)?,
            subject: Subject { issuer: row.try_get(3)?, subject: row.try_get(4)? },
            created_at: row.try_get(5)?,
        })
    };
    rows.iter().map(record).collect()
}

/// The principal that a subject is linked to: `None` when it is not, or its user's membership or tenant is not in force,
/// or several tenants have linked it, since the token does not say which is meant. The role is the user's at this moment.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn subject_authenticate(
    tenancy: &Tenancy,
    subject: &Subject,
) -> Result<Option<Principal>, TenancyError> {
    let found = tenancy.lookup().identity(&subject.issuer, &subject.subject).await?;
    let Some((tenant, user)) = found else { return Ok(None) };
    let tx = tenancy.tx(tenant).await?;
    let sql = "select m.role from tenant_memberships m \
               join tenants t on t.tenant_id = m.tenant_id and t.status = 'active' \
               where m.tenant_id = $1 and m.user_id = $2";
    let row = tx.query_opt(sql, &[&tenant.as_uuid(), &user.as_uuid()]).await?;
    tx.commit().await?;
    let Some(row) = row else { return Ok(None) };
    let role = role_from(&row, 0)?;
    Ok(Some(Principal { tenant, id: user, key: None, role: role.as_str(), grants: role.grants() }))
}

async fn person(tx: &TenantTx, name: &str) -> Result<PrincipalId, TenancyError> {
    let tenant = tx.tenant().as_uuid();
    let insert = "insert into users (tenant_id, user_id, name, kind) values ($1, $2, $3, 'person') \
                  on conflict (tenant_id, name) do nothing";
    tx.execute(insert, &[&tenant, &Uuid::new_v4(), &name]).await?;
    let sql = "select user_id, kind from users where tenant_id = $1 and name = $2 for update";
    let row = tx.query_one(sql, &[&tenant, &name]).await?;
    if row.try_get::<_, &str>(1)? != "person" {
        return Err(TenancyError::Conflict { constraint: Some("user_name".to_owned()) });
    }
    Ok(PrincipalId::from_uuid(row.try_get(0)?))
}
