//! What a TOML file resolves to, and who wins: `cargo run -p control-plane --example settings`.
#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use std::io::Write as _;

use control_plane::config::{ConfigError, Settings};

const FILE: &str = r#"
listen = "0.0.0.0:7420"
public_url = "https://coreci.example"
behind_proxy = true
trusted_proxies = ["10.0.0.0/8"]

[limits]
user_per_min = 120
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(FILE.as_bytes())?;

    let config = Settings::default().or_file(Some(file.path()))?.check()?;
    println!("{FILE}\nresolves to\n");
    println!("public listener      {}", config.listen);
    println!("internal listener    {}", config.internal_listen);
    println!("public URL           {}", config.public_url_at(config.listen)?.as_str());
    println!("trusted proxies      {:?}", config.trusted_proxies);
    println!(
        "calls per minute     {} per user, {} per tenant",
        config.limits.user_per_min, config.limits.tenant_per_min
    );
    println!("calls in flight      {} per tenant\n", config.in_flight);

    // What flags and CORECI_* variables say is in the settings before the file is asked.
    let flags = Settings { listen: Some("127.0.0.1:8080".parse()?), ..Settings::default() };
    let config = flags.or_file(Some(file.path()))?.check()?;
    println!("with --listen 127.0.0.1:8080 it listens on {}\n", config.listen);

    // A wrong key is named, and an unsafe combination says what would be right.
    file.write_all(b"user_per_minute = 1\n")?;
    say(Settings::default().or_file(Some(file.path())).err());
    let open = Settings { listen: Some("0.0.0.0:7420".parse()?), ..Settings::default() };
    say(open.check().err());
    Ok(())
}

fn say(refused: Option<ConfigError>) {
    if let Some(error) = refused {
        println!("refused: {error}");
    }
}
