//! The program `llm-mock`, for clients that are not written in Rust.

use std::net::SocketAddr;

use clap::Parser;
use llm_mock::LlmMock;
use tokio::net::TcpListener;

/// A deterministic model server, for tests only.
#[derive(Parser)]
struct Cli {
    /// Where to listen; loopback only, and port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "not an address and a port".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err("not a loopback address".to_owned()) }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "whoever started it needs to know the port")]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind(Cli::parse().listen).await?;
    println!("listening on http://{}/v1", listener.local_addr()?);
    Ok(LlmMock::new().serve(listener).await?)
}
