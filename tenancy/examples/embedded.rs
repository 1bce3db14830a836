//! Runs an embedded server until its standard input ends: `cargo run -p tenancy --example embedded -- DATA_DIR`.
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
    let Some(data_dir) = first else {
        eprintln!("usage: embedded DATA_DIR");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(data_dir.into()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(data_dir: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    let binaries = PgBinaries::find(&data_dir, None, std::env::var_os("PATH").as_deref())?;
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
