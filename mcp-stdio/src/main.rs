//! The bridge as a program of its own, for laptops without a control plane.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use mcp_core::secret::SecretValue;
use mcp_stdio::{Bridge, LocateError, Server};

/// MCP over standard input and output, bridged to a CoreCI control plane.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// URL of the control plane.
    #[arg(long, env = "CORECI_URL", value_name = "URL")]
    url: String,
    /// File that holds an API key. Without it, the variable CORECI_API_KEY holds the key itself.
    #[arg(long, env = "CORECI_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// PEM file of the authority that signed the server's certificate, when no public one did.
    #[arg(long, env = "CORECI_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        say("a TLS provider was installed already");
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("the program cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(bridge(args));
    // A read of standard input cannot be interrupted, and nobody waits for it any more.
    runtime.shutdown_background();
    code
}

async fn bridge(args: Args) -> ExitCode {
    let bridge = match Bridge::new(move || args.server(), say) {
        Ok(bridge) => bridge,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    match bridge.run(tokio::io::stdin(), tokio::io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("standard input cannot be read: {error}"));
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn server(&self) -> Result<Server, LocateError> {
        #[expect(clippy::disallowed_methods, reason = "a key has no flag, so clap cannot read its variable")]
        let key = match &self.key_file {
            Some(path) => read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())?,
            None => std::env::var("CORECI_API_KEY").map_err(|_| {
                LocateError::Unknown("no key is known: name its file with --key-file".to_owned())
            })?,
        };
        let ca_pem = self.ca_file.as_ref().map(read).transpose()?;
        Ok(Server { url: self.url.clone(), key: SecretValue::new(key), ca_pem })
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, LocateError> {
    std::fs::read(path)
        .map_err(|error| LocateError::Unknown(format!("{} cannot be read: {error}", path.display())))
}

#[expect(clippy::print_stderr, reason = "standard error is where the program speaks to a person")]
fn say(line: &str) {
    eprintln!("mcp-stdio: {line}");
}
