//! Relay agents: enrolment, registration, revocation.

use std::time::Duration;

use mcp_core::id::{AgentId, PrincipalId, TargetId};
use mcp_core::relay::HostFacts;
use mcp_core::tool::AdapterKind;
use serde_json::json;
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::TenancyError;
use crate::outbox::{new_event_id, outbox_put};
use crate::stores::target::{target_create, target_remove};
use crate::tx::TenantTx;

/// One enrolled agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub agent_id: AgentId,
    /// The host it speaks for.
    pub target_id: TargetId,
    /// The Ed25519 key that its connections are signed with.
    pub public_key: [u8; 32],
    /// The number of its newest registration. Answers of an older one are dropped.
    pub epoch: u64,
    /// When it enrolled.
    pub enrolled_at: OffsetDateTime,
    /// When it was revoked. A revoked id stays dead.
    pub revoked_at: Option<OffsetDateTime>,
}

/// A pending enrolment, as shown to the admin who created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// Its id.
    pub enrolment_id: Uuid,
    /// The name the target will have.
    pub name: String,
    /// When the token stops working.
    pub expires_at: OffsetDateTime,
}

/// Creates a single-use enrolment. Only the token's SHA-256 is stored.
///
/// # Errors
/// [`TenancyError::Invalid`] for a bad name or a lifetime that does not fit a date.
pub async fn enrolment_create(
    tx: &TenantTx,
    name: &str,
    token_hash: &[u8; 32],
    lifetime: Duration,
    created_by: Option<PrincipalId>,
) -> Result<Enrolment, TenancyError> {
    let sql = "insert into enrolments (tenant_id, enrolment_id, token_hash, name, created_by, expires_at) \
               values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6)) returning enrolment_id, name, expires_at";
    let row = tx
        .query_one(
            sql,
            &[
                &tx.tenant().as_uuid(),
                &Uuid::new_v4(),
                &token_hash.as_slice(),
                &name,
                &created_by.map(|principal| principal.as_uuid()),
                &lifetime.as_secs_f64(),
            ],
        )
        .await?;
    Ok(Enrolment { enrolment_id: row.try_get(0)?, name: row.try_get(1)?, expires_at: row.try_get(2)? })
}

/// Uses an enrolment up and creates the target and its agent, with the event `relay.enrolled`. Of any number of callers
/// that race for one enrolment, one succeeds.
///
/// # Errors
/// [`TenancyError::NotFound`] when the enrolment is unknown, used or expired (one answer for all three);
/// [`TenancyError::Conflict`] when the tenant has a present target of that name, and then, after the rollback, the
/// enrolment is still unused.
pub async fn enrolment_use(
    tx: &TenantTx,
    enrolment: Uuid,
    public_key: &[u8; 32],
    facts: &HostFacts,
    from_ip: Option<&str>,
) -> Result<Agent, TenancyError> {
    // The one statement that decides the race: the loser waits for the winner's row lock, then matches nothing.
    let claim = "update enrolments set used_at = now() \
                 where tenant_id = $1 and enrolment_id = $2 and used_at is null and expires_at > now() returning name";
    let tenant = tx.tenant().as_uuid();
    let claimed = tx.query_one(claim, &[&tenant, &enrolment]).await?;
    let name: &str = claimed.try_get(0)?;

    let target_id = TargetId::from_uuid(Uuid::new_v4());
    let agent_id = AgentId::from_uuid(Uuid::new_v4());
    target_create(tx, target_id, AdapterKind::Ssh, name).await?;
    target_set_facts(tx, target_id, facts).await?;
    let sql = "insert into agents (tenant_id, agent_id, target_id, public_key, enrolled_ip) \
               values ($1, $2, $3, $4, $5) returning agent_id, target_id, public_key, epoch, enrolled_at, revoked_at";
    let row = tx
        .query_one(
            sql,
            &[&tenant, &agent_id.as_uuid(), &target_id.as_uuid(), &public_key.as_slice(), &from_ip],
        )
        .await?;
    let body = json!({
        "actor": agent_id, "agentId": agent_id, "targetId": target_id, "enrolmentId": enrolment, "name": name,
    });
    outbox_put(tx, new_event_id(), "relay.enrolled", &body).await?;
    agent_from(&row)
}

/// An agent, revoked or not.
///
/// # Errors
/// [`TenancyError::NotFound`].
pub async fn agent_get(tx: &TenantTx, agent: AgentId) -> Result<Agent, TenancyError> {
    let sql = "select agent_id, target_id, public_key, epoch, enrolled_at, revoked_at from agents \
               where tenant_id = $1 and agent_id = $2";
    agent_from(&tx.query_one(sql, &[&tx.tenant().as_uuid(), &agent.as_uuid()]).await?)
}

/// Records a registration: the epoch rises, the host's facts are kept, `relay.registered` goes into the outbox. Returns
/// the target and the new epoch.
///
/// # Errors
/// [`TenancyError::NotFound`] when the agent is unknown or revoked.
pub async fn agent_registered(
    tx: &TenantTx,
    agent: AgentId,
    facts: &HostFacts,
) -> Result<(TargetId, u64), TenancyError> {
    let sql = "update agents set epoch = epoch + 1 \
               where tenant_id = $1 and agent_id = $2 and revoked_at is null returning target_id, epoch";
    let row = tx.query_one(sql, &[&tx.tenant().as_uuid(), &agent.as_uuid()]).await?;
    let target = TargetId::from_uuid(row.try_get(0)?);
    let epoch = epoch_from(row.try_get(1)?)?;
    target_set_facts(tx, target, facts).await?;
    let body = json!({ "actor": agent, "agentId": agent, "targetId": target, "epoch": epoch });
    outbox_put(tx, new_event_id(), "relay.registered", &body).await?;
    Ok((target, epoch))
}

/// Notes that the agent was heard of now. Says `false` when the agent is unknown or revoked, its tenant is suspended or
/// gone, or a newer registration than `epoch` exists: the connection that asked has to end.
///
/// # Errors
/// As [`TenantTx::query`].
pub async fn agent_seen(tx: &TenantTx, agent: AgentId, epoch: u64) -> Result<bool, TenancyError> {
    let sql = "update targets t set last_seen_at = now() from agents a, tenants o \
               where a.tenant_id = $1 and a.agent_id = $2 and a.epoch = $3 and a.revoked_at is null \
                 and o.tenant_id = a.tenant_id and o.status = 'active' \
                 and t.tenant_id = a.tenant_id and t.target_id = a.target_id and t.removed_at is null";
    let Ok(epoch) = i64::try_from(epoch) else { return Ok(false) };
    Ok(tx.execute(sql, &[&tx.tenant().as_uuid(), &agent.as_uuid(), &epoch]).await? == 1)
}

/// Revokes the agents of a target and removes it, with one `relay.revoked` per agent. Returns the agents, whose
/// connections the caller closes.
///
/// # Errors
/// [`TenancyError::NotFound`] when there is no such present target.
pub async fn target_revoke(
    tx: &TenantTx,
    target: TargetId,
    actor: &str,
) -> Result<Vec<AgentId>, TenancyError> {
    target_remove(tx, target).await?;
    let sql = "update agents set revoked_at = now() \
               where tenant_id = $1 and target_id = $2 and revoked_at is null returning agent_id";
    let rows = tx.query(sql, &[&tx.tenant().as_uuid(), &target.as_uuid()]).await?;
    let mut revoked = Vec::with_capacity(rows.len());
    for row in &rows {
        let agent = AgentId::from_uuid(row.try_get(0)?);
        let body = json!({ "actor": actor, "agentId": agent, "targetId": target });
        outbox_put(tx, new_event_id(), "relay.revoked", &body).await?;
        revoked.push(agent);
    }
    Ok(revoked)
}

async fn target_set_facts(tx: &TenantTx, target: TargetId, facts: &HostFacts) -> Result<(), TenancyError> {
    let sql = "update targets set hostname = $3, os = $4, version = $5, ip = $6, last_seen_at = now() \
               where tenant_id = $1 and target_id = $2";
    // The agent's word, not ours: shown, never dialled or trusted.
    let HostFacts { hostname, os, version, ip } = facts;
    tx.execute(sql, &[&tx.tenant().as_uuid(), &target.as_uuid(), &hostname, &os, &version, &ip]).await?;
    Ok(())
}

fn agent_from(row: &Row) -> Result<Agent, TenancyError> {
    let key: &[u8] = row.try_get(2)?;
    Ok(Agent {
        agent_id: AgentId::from_uuid(row.try_get(0)?),
        target_id: TargetId::from_uuid(row.try_get(1)?),
        public_key: key
            .try_into()
            .map_err(|_| TenancyError::Internal("a stored public key has a wrong length".into()))?,
        epoch: epoch_from(row.try_get(3)?)?,
        enrolled_at: row.try_get(4)?,
        revoked_at: row.try_get(5)?,
    })
}

fn epoch_from(stored: i64) -> Result<u64, TenancyError> {
    u64::try_from(stored).map_err(|_| TenancyError::Internal("a stored epoch is negative".into()))
}
