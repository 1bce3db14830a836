//! `user link|unlink|list`: which person an issuer's subject is. The operator's commands until people can be invited.

use clap::{Args, Subcommand};
use identity::Role;
use identity::oauth::Subject;
use identity::pg::{IdentityRecord, NewIdentity, identity_link, identity_list, identity_unlink};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::key::Scope;
use super::tenant::{explain, find};
use super::{CommandError, Context, say};
use crate::app::CommandSession;
use crate::output;

/// Most links that are listed.
const MOST_LISTED: u32 = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Let a subject of an issuer of access tokens use /mcp as a person of a tenant.
    Link {
        /// Name of the person; made if there is none.
        #[arg(long)]
        name: String,
        /// admin, operator or viewer.
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        subject: SubjectArgs,
        #[command(flatten)]
        scope: Scope,
    },
    /// Take a link away; a running server stops taking the subject's tokens within a second.
    Unlink {
        #[command(flatten)]
        subject: SubjectArgs,
        #[command(flatten)]
        scope: Scope,
    },
    /// List links.
    List {
        #[command(flatten)]
        scope: Scope,
    },
}

/// Who somebody is to an issuer.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// The issuer, exactly as its tokens name it (iss).
    #[arg(long, env = "CORECI_OAUTH_ISSUER", value_name = "URL")]
    issuer: String,
    /// The person, as the issuer's tokens name them (sub).
    #[arg(long)]
    subject: String,
}

impl From<SubjectArgs> for Subject {
    fn from(args: SubjectArgs) -> Self {
        Self { issuer: args.issuer, subject: args.subject }
    }
}

pub(crate) async fn run(command: UserCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        UserCommand::Link { name, role, subject, scope } => {
            link(&name, role, &subject.into(), &scope, context).await
        }
        UserCommand::Unlink { subject, scope } => unlink(&subject.into(), &scope, context).await,
        UserCommand::List { scope } => list(&scope, context).await,
    }
}

async fn link(
    name: &str,
    role: Role,
    subject: &Subject,
    scope: &Scope,
    context: &Context,
) -> Result<(), CommandError> {
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    let record = identity_link(&tx, &NewIdentity { name, role, subject }, None).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    output::print(context.output, &COLUMNS, &view(&record));
    Ok(())
}

async fn unlink(subject: &Subject, scope: &Scope, context: &Context) -> Result<(), CommandError> {
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    identity_unlink(&tx, subject, None).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    say("unlinked; a running server stops taking their tokens within a second");
    Ok(())
}

async fn list(scope: &Scope, context: &Context) -> Result<(), CommandError> {
    let session = CommandSession::open(&scope.database, context).await?;
    let tenant = find(session.tenancy(), scope.tenant.as_deref()).await?;
    let tx = session.tenancy().tx(tenant).await.map_err(explain)?;
    let links = identity_list(&tx, MOST_LISTED).await.map_err(explain)?;
    tx.commit().await.map_err(explain)?;
    session.close().await?;
    output::print(context.output, &COLUMNS, &Value::Array(links.iter().map(view).collect()));
    Ok(())
}

const COLUMNS: [&str; 6] = ["name", "role", "issuer", "subject", "createdAt", "id"];

fn view(record: &IdentityRecord) -> Value {
    json!({
        "id": record.user_id, "name": record.name, "role": record.role, "issuer": record.subject.issuer,
        "subject": record.subject.subject, "createdAt": record.created_at.format(&Rfc3339).unwrap_or_default(),
    })
}
