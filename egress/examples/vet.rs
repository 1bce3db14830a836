//! Prints what the guard says to URLs, under the default policy and under that of a hosted service. Nothing is dialled
//! or looked up.
#![expect(clippy::print_stdout, reason = "an example shows something")]

use egress::{EgressPolicy, EgressUrl, Mode};

const SAMPLES: [&str; 12] = [
    "https://api.github.com",
    "https://pve.example.com:8006",
    "https://192.168.7.20:8006",
    "https://2130706433",
    "https://①②⑦.⓪.⓪.①",
    "https://[64:ff9b::a9fe:a9fe]",
    "https://metadata.google.internal",
    "https://gitea.internal:3000",
    "https://good.example@127.0.0.1",
    "https://example.com:22",
    "http://example.com",
    "file:///etc/passwd",
];

fn main() {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let urls: Vec<&str> =
        if typed.is_empty() { SAMPLES.to_vec() } else { typed.iter().map(String::as_str).collect() };
    for (title, mode) in [("self-hosted", Mode::SelfHosted), ("hosted for many", Mode::Saas)] {
        let policy = EgressPolicy { mode, ..EgressPolicy::default() };
        println!("{title}:");
        for url in &urls {
            match EgressUrl::parse(url, &policy) {
                Ok(parsed) => {
                    println!("  {url}\n      may be dialled at {} port {}", parsed.host(), parsed.port())
                }
                Err(refusal) => {
                    let hint =
                        refusal.hint().map(|line| format!("; to allow it: {line}")).unwrap_or_default();
                    println!("  {url}\n      {refusal}{hint}");
                }
            }
        }
    }
}
