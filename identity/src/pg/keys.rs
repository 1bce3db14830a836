//! Keys and the services that own them.

use std::collections::BTreeSet;

use mcp_core::id::{KeyId, PrincipalId, TargetId};
use mcp_core::principal::{Principal, Scope};
use mcp_core::tool::ToolName;
use serde_json::json;
use tenancy::outbox::{new_event_id, outbox_put};
use tenancy::{Tenancy, TenancyError, TenantTx};
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::members::{actor_word, membership_set, role_from};
use crate::key::ApiKey;
use crate::role::Role;

/// A key to be made. It belongs to a service of the same name.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// Name of the key and of the service that owns it, 1 to 200 characters.
    pub name: &'a str,
    /// What it may do.
    pub role: Role,
    /// When it stops working; never when absent.
    pub expires_at: Option<OffsetDateTime>,
    /// Narrowed to these tools; not narrowed when absent.
    pub tools: Option<BTreeSet<ToolName>>,
    /// Narrowed to these targets; not narrowed when absent.
    pub targets: Option<BTreeSet<TargetId>>,
}

/// A key as lists show it: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its id.
    pub key_id: KeyId,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it stops working.
    pub expires_at: Option<OffsetDateTime>,
    /// When it was revoked.
    pub revoked_at: Option<OffsetDateTime>,
}

/// Makes a key, and the service that owns it, with the event `auth.key_created`. `actor` is who asked: a principal, or
/// the operator at the command line.
///
/// # Errors
/// [`TenancyError::Conflict`] when a live key has that name, or a person; [`TenancyError::Invalid`] for a bad name.
pub async fn key_create(
    tx: &TenantTx,
    key: &ApiKey,
    new: &NewKey<'_>,
    actor: Option<PrincipalId>,
) -> Result<KeyRecord, TenancyError> {
    let owner = service_for_key(tx, new.name).await?;
    membership_set(tx, owner, new.role).await?;
    let key_id = KeyId::from_uuid(Uuid::new_v4());
    let tools = new.tools.as_ref().map(|tools| tools.iter().map(|tool| tool.as_str()).collect::<Vec<_>>());
    let targets =
        new.targets.as_ref().map(|targets| targets.iter().map(TargetId::as_uuid).collect::<Vec<_>>());
    let sql = "insert into api_keys \
               (tenant_id, key_id, user_id, name, key_hash, role, tools, targets, created_by, expires_at) \
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
               returning key_id, name, role, created_at, expires_at, revoked_at";
    let digest = key.digest();
    let row = tx
        .query_one(
            sql,
            &[
                &tx.tenant().as_uuid(),
                &key_id.as_uuid(),
                &owner.as_uuid(),
                &new.name,
                &digest.as_slice(),
                &new.role.as_str(),
                &tools,
                &targets,
                &actor.map(|actor| actor.as_uuid()),
                &new.expires_at,
            ],
        )
        .await?;
    let body = json!({
        "actor": actor_word(actor), "keyId": key_id, "userId": owner, "name": new.name, "role": new.role,
        "tools": tools, "targets": new.targets,
    });
    outbox_put(tx, new_event_id(), "auth.key_created", &body).await?;
    key_from(&row)
}

/// A page of keys in the order of (creation, id), after `after`; revoked ones included.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn key_list(
    tx: &TenantTx,
    after: Option<(OffsetDateTime, KeyId)>,
    limit: u32,
) -> Result<Vec<KeyRecord>, TenancyError> {
    let sql = "select key_id, name, role, created_at, expires_at, revoked_at from api_keys \
               where tenant_id = $1 and ($2::timestamptz is null or (created_at, key_id) > ($2, $3::uuid)) \
               order by created_at, key_id limit $4";
    let (at, id) = after.map_or((None, None), |(at, id)| (Some(at), Some(id.as_uuid())));
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &at, &id, &i64::from(limit)]).await?;
    rows.iter().map(key_from).collect()
}

/// Revokes a key, with the event `auth.key_revoked`. Revoking twice is once.
///
/// # Errors
/// [`TenancyError::NotFound`] when the tenant has no such key; [`TenancyError::Conflict`] (constraint `last_admin`) when
/// it is the last live admin key.
pub async fn key_revoke(tx: &TenantTx, key: KeyId, actor: Option<PrincipalId>) -> Result<(), TenancyError> {
    let tenant = tx.tenant().as_uuid();
    // All live admin keys are locked in one order, so that two revocations cannot both believe the other key remains.
    let live = "select key_id from api_keys \
                where tenant_id = $1 and role = 'admin' and revoked_at is null \
                  and (expires_at is null or expires_at > now()) order by key_id for update";
    let admins = tx.query(live, &[&tenant]).await?;
    if let [only] = &admins[..]
        && only.try_get::<_, Uuid>(0)? == key.as_uuid()
    {
        return Err(TenancyError::Conflict { constraint: Some("last_admin".to_owned()) });
    }
    let exists =
        "select revoked_at is not null from api_keys where tenant_id = $1 and key_id = $2 for update";
    let row = tx.query_one(exists, &[&tenant, &key.as_uuid()]).await?;
    if row.try_get::<_, bool>(0)? {
        return Ok(());
    }
    let revoke = "update api_keys set revoked_at = now() where tenant_id = $1 and key_id = $2";
    tx.execute(revoke, &[&tenant, &key.as_uuid()]).await?;
    let body = json!({ "actor": actor_word(actor), "keyId": key });
    outbox_put(tx, new_event_id(), "auth.key_revoked", &body).await
}

/// The principal behind a key's digest: `None` when there is no such key, or it, or its owner's membership, or its
/// tenant is not in force. The role is the smaller of the key's and the owner's at this moment.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn key_authenticate(
    tenancy: &Tenancy,
    digest: &[u8; 32],
) -> Result<Option<Principal>, TenancyError> {
    let Some((tenant, key)) = tenancy.lookup().api_key(digest).await? else { return Ok(None) };
    let tx = tenancy.tx(tenant).await?;
    let sql = "select k.user_id, k.role, m.role, k.tools, k.targets \
               from api_keys k \
               join tenant_memberships m on m.tenant_id = k.tenant_id and m.user_id = k.user_id \
               join tenants t on t.tenant_id = k.tenant_id and t.status = 'active' \
               where k.tenant_id = $1 and k.key_id = $2 and k.revoked_at is null \
                 and (k.expires_at is null or k.expires_at > now())";
    let row = tx.query_opt(sql, &[&tenant.as_uuid(), &key.as_uuid()]).await?;
    tx.commit().await?;
    let Some(row) = row else { return Ok(None) };
    let role = role_from(&row, 1)?.min(role_from(&row, 2)?);
    let tools = match row.try_get::<_, Option<Vec<String>>>(3)? {
        None => Scope::All,
        // A name that is no tool any more narrows to nothing; it never widens.
        Some(names) => Scope::Only(names.iter().filter_map(|name| ToolName::parse(name)).collect()),
    };
    let targets = match row.try_get::<_, Option<Vec<Uuid>>>(4)? {
        None => Scope::All,
        Some(ids) => Scope::Only(ids.into_iter().map(TargetId::from_uuid).collect()),
    };
    Ok(Some(Principal {
        tenant,
        id: PrincipalId::from_uuid(row.try_get(0)?),
        key: Some(key),
        role: role.as_str(),
        grants: role.grants().narrowed_to_tools(tools).narrowed_to_targets(targets),
    }))
}

/// The service that owns keys of this name. A service whose keys are all revoked may get a new one, which then continues
/// its trail in the audit log.
async fn service_for_key(tx: &TenantTx, name: &str) -> Result<PrincipalId, TenancyError> {
    let tenant = tx.tenant().as_uuid();
    let insert = "insert into users (tenant_id, user_id, name, kind) values ($1, $2, $3, 'service') \
                  on conflict (tenant_id, name) do nothing";
    tx.execute(insert, &[&tenant, &Uuid::new_v4(), &name]).await?;
    // The row is locked, so that two requests for one name do not both find it free.
    let owner = "select user_id, kind from users where tenant_id = $1 and name = $2 for update";
    let row = tx.query_one(owner, &[&tenant, &name]).await?;
    let owner = PrincipalId::from_uuid(row.try_get(0)?);
    let live = "select 1 from api_keys where tenant_id = $1 and user_id = $2 and revoked_at is null limit 1";
    let is_taken = tx.query_opt(live, &[&tenant, &owner.as_uuid()]).await?.is_some();
    if is_taken || row.try_get::<_, &str>(1)? != "service" {
        return Err(TenancyError::Conflict { constraint: Some("key_name".to_owned()) });
    }
    Ok(owner)
}

fn key_from(row: &Row) -> Result<KeyRecord, TenancyError> {
    Ok(KeyRecord {
        key_id: KeyId::from_uuid(row.try_get(0)?),
        name: row.try_get(1)?,
        role: role_from(row, 2)?,
        created_at: row.try_get(3)?,
        expires_at: row.try_get(4)?,
        revoked_at: row.try_get(5)?,
    })
}
