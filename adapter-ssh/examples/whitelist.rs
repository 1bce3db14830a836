//! Prints what layer 1 of the whitelist says to a list of commands.

use adapter_ssh::whitelist::Command;

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    for text in [
        "uptime",
        "systemctl status getty@tty1.service",
        "journalctl -n 500",
        "journalctl -n 501",
        "systemctl status -Hevil.example",
        "systemctl status 1234",
        "df  -h",
        "rm -rf /",
    ] {
        match Command::parse(text) {
            Ok(command) => println!("run    {command}"),
            Err(refused) => println!("refuse {text:?}: {refused}"),
        }
    }
}
