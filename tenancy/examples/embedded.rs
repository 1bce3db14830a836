//! Runs an embedded server until its standard input ends: `cargo run -p tenancy --example embedded -- DATA_DIR`. Without a
//! directory it uses a scratch one that is gone afterwards.
//!
//! It is also its own supervise command, as the control plane is: see `supervised_main`.
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use tenancy::embedded::{EmbeddedConfig, EmbeddedServer, PgBinaries, SuperviseCommand, supervised_main};
use tenancy::{migrate, preflight};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    // Before any thread exists: this process is about to become Postgres.
    if first.as_deref() == Some("__supervised".as_ref()) {
        return supervised_main(args);
    }
    let scratch = std::env::temp_dir().join(format!("coreci-example-{}", std::process::id()));
    let data_dir = first.map_or_else(|| scratch.clone(), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(data_dir)));
    // Only there when no directory was named.
    let _ = std::fs::remove_dir_all(scratch);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(data_dir: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let configured = std::env::var_os("CORECI_PG_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH");
    let binaries = PgBinaries::find(&data_dir, configured.as_deref(), path.as_deref())?;
    let supervise =
        SuperviseCommand { program: "/proc/self/exe".into(), args: vec![OsString::from("__supervised")] };
    let server = EmbeddedServer::start(EmbeddedConfig { data_dir, binaries, supervise }).await?;
    if let Some(migrator) = &server.connections().migrator {
        migrate::migrate(migrator).await?;
    }
    preflight::check(server.connections()).await?;
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.stop().await;
    Ok(())
}
