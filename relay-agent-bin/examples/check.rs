//! Prints what the agent says to a list of commands: `cargo run -p relay-agent --example check`.

use std::io::Write;

use relay_agent::whitelist::check_command;

const COMMANDS: [&str; 12] = [
    "uptime",
    "df -h",
    "journalctl -n 500",
    "systemctl status getty@tty1.service",
    "systemctl list-units --type=service",
    "uptime ",
    "df  -h",
    "journalctl -n 501",
    "systemctl status -Hevil.example",
    "systemctl status 1",
    "systemctl restart nginx",
    "uptime; rm -rf /",
];

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for command in COMMANDS {
        match check_command(command) {
            Ok(()) => writeln!(out, "runs     {command:?}")?,
            Err(rejected) => writeln!(out, "refused  {command:?}: {rejected}")?,
        }
    }
    Ok(())
}
