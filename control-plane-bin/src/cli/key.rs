//! `key create|list|revoke`: the operator's way to a tenant's first key, and back in when all are lost.

use clap::{Args, Subcommand};
use identity::pg::{KeyRecord, NewKey, key_create, key_list, key_revoke};
use identity::{ApiKey, Role};
use mcp_core::id::KeyId;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::tenant::{explain, find};
use super::{CommandError, Context, say};
use crate::app::CommandSession;
use crate::database::DatabaseSource;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it, this once.
    Create {
        /// Name of the key, and of the service that owns it.
        #[arg(long)]
        name: String,
        /// admin, operator or viewer.
        #[arg(long)]
        role: Role,
        /// When it stops working, RFC 3339; never when absent.
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// List keys.
    List {
        #[command(flatten)]
        scope: Scope,
    },
    /// Revoke a key.
    Revoke {
        /// Its id.
        key: String,
        #[command(flatten)]
        scope: Scope,
    },
}

/// Which tenant of which database.
#[derive(Debug, Args)]
pub(crate) struct Scope {
    /// Short name or id of the tenant; the only one when absent.
    #[arg(long)]
    pub(super) tenant: Option<String>,
    #[command(flatten)]
    pub(super) database: DatabaseSource,
}

pub(crate) async fn run(command: KeyCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        KeyCommand::Create { name, role, expires, scope } => {
            create(&name, role, expires, &scope, context).await
        }
        KeyCommand::List { scope } => list(&scope, context).await,
        KeyCommand::Revoke { key, scope } => revoke(&key, &scope, context).await,
    }
}

async fn create(
    name: &str,
    role: Role,
    expires: Option<String>,
    scope: &Scope,
    context: &Context,
) -> Result<(), CommandError> {
    let parse = |text: String| {
        OffsetDateTime::parse(&text, &Rfc3339).map_err(|_| {
            CommandError::Usage("--expires must be a time such as 2027-01-31T00:00:00Z".to_owned())
        })
    };
    let expires_at = expires.map(parse).transpose()?;
    if expires_at.is_some_and(|at| at <= OffsetDateTime::now_utc()) {
        return Err(CommandError::Usage("--expires must lie in the future".to_owned()));
    }
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let key = ApiKey::generate()
        .map_err(|_| CommandError::Failure(anyhow::anyhow!("the system's random generator failed")))?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    let new = NewKey { name, role, expires_at, tools: None, targets: None };
    let record = key_create(&tx, &key, &new, None).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    match context.output {
        output::Format::Json => {
            output::print(context.output, &[], &json!({ "id": record.key_id, "key": key.reveal() }));
        }
        // The key alone, so that it can be redirected into a file.
        output::Format::Table => {
            say("this key is shown once; keep it in a file that only you can read");
            output::line(key.reveal());
        }
    }
    Ok(())
}

async fn list(scope: &Scope, context: &Context) -> Result<(), CommandError> {
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    let mut keys: Vec<KeyRecord> = Vec::new();
    loop {
        let after = keys.last().map(|key| (key.created_at, key.key_id));
        let page = key_list(&tx, after, 1000).await.map_err(explain)?;
        if page.is_empty() {
            break;
        }
        keys.extend(page);
    }
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    let rows = keys.iter().map(view).collect();
    output::print(
        context.output,
        &["name", "role", "createdAt", "expiresAt", "revokedAt", "id"],
        &Value::Array(rows),
    );
    Ok(())
}

fn view(key: &KeyRecord) -> Value {
    let time = |at: OffsetDateTime| at.format(&Rfc3339).unwrap_or_default();
    json!({
        "id": key.key_id, "name": key.name, "role": key.role, "createdAt": time(key.created_at),
        "expiresAt": key.expires_at.map(time), "revokedAt": key.revoked_at.map(time),
    })
}

async fn revoke(key: &str, scope: &Scope, context: &Context) -> Result<(), CommandError> {
    let key: KeyId = key
        .parse()
        .map_err(|_| CommandError::NotFound("there is no such key: key list shows them".to_owned()))?;
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    key_revoke(&tx, key, None).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    say("revoked; a running server stops taking it within a second");
    Ok(())
}
