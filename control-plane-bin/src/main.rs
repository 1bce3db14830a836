//! The control plane: parse, run, map the outcome to an exit code.

use std::process::ExitCode;

use clap::Parser;
use control_plane::cli::{Cli, supervised};

fn main() -> ExitCode {
    // A child of ours on its way to becoming Postgres: nothing else may have started yet.
    if let Some(code) = supervised() {
        return code;
    }
    Cli::parse().run()
}
