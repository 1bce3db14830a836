//! `audit verify` and `audit export`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use audit::export::{export_tenant, verify_export};
use audit::reader::connect;
use audit::verdict::{EXIT_COULD_NOT_CHECK, Verdict};
use audit::verify::{verify_all, verify_tenant};
use clap::{Args, Subcommand};
use mcp_core::id::TenantId;
use serde_json::{Value, json};

use super::tenant::find;
use super::{CommandError, Context, say};
use crate::app::CommandSession;
use crate::database::DatabaseSource;
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Recompute chains and say whether they are what was written. Exit code: 0 intact, 1 tampered, 2 truncated,
    /// 3 could not check.
    Verify(VerifyArgs),
    /// Write a tenant's chain as NDJSON.
    Export {
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Short name or id of the tenant; the only one when absent.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        database: DatabaseSource,
    },
}

#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = false)]
pub(crate) struct What {
    /// Every chain, the system's own included.
    #[arg(long)]
    all: bool,
    /// The chain of one tenant, by short name or id.
    #[arg(long)]
    tenant: Option<String>,
    /// The chains in an export; needs no database.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    database: DatabaseSource,
}

pub(crate) async fn run(command: AuditCommand, context: &Context) -> Result<(), CommandError> {
    match command {
        AuditCommand::Verify(args) => verify(args, context).await,
        AuditCommand::Export { out, tenant, database } => export(&out, tenant, &database, context).await,
    }
}

async fn verify(args: VerifyArgs, context: &Context) -> Result<(), CommandError> {
    let checked = match &args.what.export {
        Some(file) => verify_file(file),
        None => verify_database(&args, context).await,
    };
    let verdicts = checked.map_err(|error| match error {
        // Not found and bad usage stay what they are; everything else means that nothing could be checked.
        CommandError::Failure(cause) => CommandError::Verdict {
            code: EXIT_COULD_NOT_CHECK,
            message: format!("could not check: {cause:#}"),
        },
        other => other,
    })?;
    let rows = verdicts.iter().map(|(tenant, verdict)| {
        json!({ "tenant": tenant, "verdict": verdict.to_string(), "intact": verdict.is_intact() })
    });
    output::print(context.output, &["tenant", "verdict"], &Value::Array(rows.collect()));
    match Verdict::exit_code_of_all(verdicts.iter().map(|(_, verdict)| verdict)) {
        0 => Ok(()),
        code => {
            Err(CommandError::Verdict { code, message: "the audit log is not what was written".to_owned() })
        }
    }
}

fn verify_file(path: &Path) -> Result<Vec<(TenantId, Verdict)>, CommandError> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Ok(verify_export(BufReader::new(file)).map_err(anyhow::Error::from)?)
}

async fn verify_database(
    args: &VerifyArgs,
    context: &Context,
) -> Result<Vec<(TenantId, Verdict)>, CommandError> {
    let session = CommandSession::open(&args.database, context).await?;
    let verdicts = match &args.what.tenant {
        Some(wanted) => {
            let tenant = find(session.tenancy(), Some(wanted)).await?;
            let client = connect(&session.connections().audit).await.map_err(anyhow::Error::from)?;
            let verdict = verify_tenant(&client, tenant, |rows| progress(tenant, rows)).await;
            vec![(tenant, verdict.map_err(anyhow::Error::from)?)]
        }
        None => {
            let client = connect(&session.connections().audit).await.map_err(anyhow::Error::from)?;
            verify_all(&client, progress).await.map_err(anyhow::Error::from)?
        }
    };
    session.close().await?;
    Ok(verdicts)
}

/// Told every few thousand rows; a small chain is done before that is worth a line.
fn progress(tenant: TenantId, rows: u64) {
    if rows >= 10_000 {
        say(&format!("{tenant}: {rows} rows checked"));
    }
}

async fn export(
    out: &Path,
    tenant: Option<String>,
    database: &DatabaseSource,
    context: &Context,
) -> Result<(), CommandError> {
    let session = CommandSession::open(database, context).await?;
    let tenant = find(session.tenancy(), tenant.as_deref()).await?;
    let client = connect(&session.connections().audit).await.map_err(anyhow::Error::from)?;
    let file = File::create_new(out).with_context(|| format!("{} cannot be created", out.display()))?;
    let mut writer = BufWriter::new(file);
    let written = export_tenant(&client, tenant, &mut writer, |rows| progress(tenant, rows)).await;
    let finished = written.map_err(anyhow::Error::from).and_then(|rows| {
        writer.flush()?;
        writer.get_ref().sync_all()?;
        Ok(rows)
    });
    session.close().await?;
    match finished {
        Ok(rows) => {
            output::print(context.output, &["tenant", "rows"], &json!({ "tenant": tenant, "rows": rows }));
            Ok(())
        }
        Err(error) => {
            // Half an export must not be taken for a whole one.
            let _ = std::fs::remove_file(out);
            Err(CommandError::Failure(error.context("the export was not written")))
        }
    }
}
