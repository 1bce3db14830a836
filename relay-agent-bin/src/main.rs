//! The program `relay-agent`. The work is in the library beside it.

use std::process::ExitCode;

use clap::Parser;

mod cli;

fn main() -> ExitCode {
    cli::Cli::parse().execute()
}
