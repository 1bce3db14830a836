//! `migrate`: roles and schema, forwards only.

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::{CommandError, Context};
use crate::database::{Database, DatabaseSource};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseSource,
}

pub(crate) async fn run(args: MigrateArgs, context: &Context) -> Result<(), CommandError> {
    let migrated = args.database.migrate().await.context("the database was not migrated")?;
    let version = match migrated {
        Some(version) => version,
        // The embedded database is migrated whenever it is opened.
        None => {
            let opened = Database::attach_or_open(&args.database, &context.data, &context.environment).await;
            opened.context("the embedded database was not migrated")?.close().await;
            tenancy::migrate::known_version()
        }
    };
    output::print(context.output, &["schema"], &json!({ "schema": version }));
    Ok(())
}
