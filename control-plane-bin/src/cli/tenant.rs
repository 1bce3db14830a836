//! `tenant create|list|suspend|delete`: the instance operator's commands. They are never offered over HTTP.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use mcp_core::id::TenantId;
use serde_json::{Value, json};
use tenancy::stores::tenant::{Tenant, TenantStatus, tenant_create, tenant_list, tenant_set_status};
use tenancy::{Tenancy, TenancyError};

use super::{CommandError, Context};
use crate::app::CommandSession;
use crate::database::DatabaseSource;
use crate::output;

/// Who the audit log says did what is done at the command line of the server.
pub(crate) const OPERATOR: &str = "operator";

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// Create a tenant.
    Create {
        /// Short name: lower-case letters, digits and hyphens.
        slug: String,
        /// Name for people; the short name when absent.
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        database: DatabaseSource,
    },
    /// List tenants.
    List {
        #[command(flatten)]
        database: DatabaseSource,
    },
    /// Switch a tenant off for now; its keys and agents stop working.
    Suspend {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        database: DatabaseSource,
    },
    /// Make a suspended tenant active again.
    Resume {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        database: DatabaseSource,
    },
    /// Delete a tenant for good. Its audit chain stays.
    Delete {
        #[command(flatten)]
        tenant: TenantArg,
        #[command(flatten)]
        database: DatabaseSource,
    },
}

/// A tenant by short name or id.
#[derive(Debug, Args)]
pub(crate) struct TenantArg {
    /// Short name or id of the tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
}

pub(crate) async fn run(command: TenantCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        TenantCommand::Create { slug, name, database } => {
            let session = CommandSession::open(&database, context).await?;
            let name = name.unwrap_or_else(|| slug.clone());
            let tenant = tenant_create(session.tenancy(), &slug, &name, OPERATOR).await.map_err(explain)?;
            session.close().await?;
            show(context, &view(&tenant));
        }
        TenantCommand::List { database } => {
            let session = CommandSession::open(&database, context).await?;
            let tenants = tenant_list(session.tenancy()).await.context("tenants cannot be listed")?;
            session.close().await?;
            show(context, &Value::Array(tenants.iter().map(view).collect()));
        }
        TenantCommand::Suspend { tenant, database } => {
            set_status(&tenant.tenant, TenantStatus::Suspended, &database, context).await?;
        }
        TenantCommand::Resume { tenant, database } => {
            set_status(&tenant.tenant, TenantStatus::Active, &database, context).await?;
        }
        TenantCommand::Delete { tenant, database } => {
            set_status(&tenant.tenant, TenantStatus::Deleted, &database, context).await?;
        }
    }
    Ok(())
}

async fn set_status(
    tenant: &str,
    status: TenantStatus,
    database: &DatabaseSource,
    context: &Context,
) -> Result<(), CommandError> {
    let session = CommandSession::open(database, context).await?;
    let id = find(session.tenancy(), Some(tenant)).await?;
    let tx = session.tenancy().tx(id).await.map_err(explain)?;
    let changed = tenant_set_status(&tx, status, OPERATOR).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    show(context, &view(&changed));
    Ok(())
}

fn show(context: &Context, value: &Value) {
    output::print(context.output, &["slug", "name", "status", "id"], value);
}

fn view(tenant: &Tenant) -> Value {
    json!({
        "id": tenant.tenant_id, "slug": tenant.slug, "name": tenant.name, "status": tenant.status.as_str(),
    })
}

/// The tenant of this short name or id; the only one when none is named.
pub(crate) async fn find(tenancy: &Tenancy, wanted: Option<&str>) -> Result<TenantId, CommandError> {
    let lookup = tenancy.lookup();
    let found = match wanted {
        Some(wanted) => match wanted.parse::<TenantId>() {
            Ok(id) => lookup.tenants().await.map_err(explain)?.into_iter().find(|tenant| *tenant == id),
            Err(_) => lookup.tenant_by_slug(wanted).await.map_err(explain)?,
        },
        None => match lookup.tenants().await.map_err(explain)?[..] {
            [only] => Some(only),
            [] => {
                return Err(CommandError::NotFound("there is no tenant yet: tenant create SLUG".to_owned()));
            }
            _ => {
                return Err(CommandError::Usage(
                    "there are several tenants: name one with --tenant".to_owned(),
                ));
            }
        },
    };
    found.ok_or_else(|| CommandError::NotFound("there is no such tenant: tenant list shows them".to_owned()))
}

/// What a database error means to a person at the command line.
pub(crate) fn explain(error: TenancyError) -> CommandError {
    match error {
        TenancyError::NotFound => CommandError::NotFound("there is no such thing".to_owned()),
        TenancyError::Conflict { constraint } if constraint.as_deref() == Some("last_admin") => {
            CommandError::Failure(anyhow::anyhow!(
                "this is the tenant's last admin key; make another one first"
            ))
        }
        TenancyError::Conflict { .. } => CommandError::Failure(anyhow::anyhow!(
            "something of that name exists already; choose another name"
        )),
        TenancyError::Invalid(_) => {
            CommandError::Usage("a name is malformed, too long or out of range".to_owned())
        }
        other => CommandError::Failure(other.into()),
    }
}
