//! What `/mcp` costs, as ratios measured in one run: a `tools/call` of a cached inventory tool against a bare echo of JSON.
//!
//! `cargo bench -p http-api`. Arguments: seconds per round (2), rounds (5; the kinds take turns, medians count). Each server
//! is a process of its own with two worker threads, and the load comes from this one, over kept-alive connections.
//!
//! `CORECI_BENCH_MCP_PROXY` names the program of the crate `mcp-proxy`; it is then measured beside us, in front of a small
//! MCP server.
#![expect(clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![expect(clippy::unwrap_used, reason = "a benchmark has nothing better to do with an error")]

mod load;
mod peer;
mod process;
mod serve;

use std::process::ExitCode;
use std::time::Duration;

use self::load::{Load, measure};
use self::process::Child;

const CONNECTIONS: usize = 16;
const MANY_CONNECTIONS: usize = 64;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        // This program is also the supervise command of its servers' databases.
        Some("__supervised") => {
            return tenancy::embedded::supervised_main(std::env::args_os().skip(2));
        }
        Some("__serve") => serve::run(&args[1]),
        _ => run(&args),
    }
    ExitCode::SUCCESS
}

fn run(args: &[String]) {
    let numbers: Vec<u64> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let round = Duration::from_secs(numbers.first().copied().unwrap_or(2));
    let rounds = numbers.get(1).copied().unwrap_or(5);

    let mut servers = vec![
        ("bare echo of the call", Child::start("echo")),
        ("bare echo of the answer", Child::start("echo")),
        ("/mcp, audit in memory", Child::start("memory")),
        ("/mcp, durable audit", Child::start("durable")),
    ];
    if let Some(peer) = peer::program() {
        servers.push(("mcp-proxy, one upstream", peer::start(&peer, false)));
        servers.push(("mcp-proxy, answers cached", peer::start(&peer, true)));
    }
    let answer = load::one_answer(&Load::call(&servers[2].1));
    let loads: Vec<Load> = servers
        .iter()
        .map(|(name, server)| match *name {
            "bare echo of the answer" => Load::body(server, answer.clone()),
            name if name.starts_with("mcp-proxy") => peer::load(server),
            _ => Load::call(server),
        })
        .collect();
    println!("a call has {} bytes, its answer {} bytes", loads[0].body_bytes(), answer.len());
    println!("{CONNECTIONS} connections, {rounds} rounds of {round:?}, medians of requests per second:\n");

    let mut rates = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (rates, load) in rates.iter_mut().zip(&loads) {
            rates.push(measure(load, CONNECTIONS, round));
        }
    }
    let medians: Vec<f64> = rates.into_iter().map(median).collect();
    for ((name, _), rate) in servers.iter().zip(&medians) {
        println!("  {name:<28} {rate:>8.0}   {:>5.1} % of the echo", rate / medians[0] * 100.0);
    }
    println!("\n/mcp is to reach 30 % of the echo of a call: {:.1} %", medians[2] / medians[0] * 100.0);
    if medians.len() > 4 {
        println!("/mcp is to reach 2 times mcp-proxy: {:.1} times", medians[2] / medians[4]);
    }

    let many = measure(&loads[2], MANY_CONNECTIONS, round);
    println!(
        "\n/mcp at {MANY_CONNECTIONS} connections: {many:.0} per second; peak of resident memory {:.1} MiB in memory, \
         {:.1} MiB with durable audit (goal: at most 60)",
        servers[2].1.peak_mib(),
        {
            measure(&loads[3], MANY_CONNECTIONS, round);
            servers[3].1.peak_mib()
        }
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
