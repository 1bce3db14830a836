//! The two walls of the command whitelist share no code, and must accept the same language: a text that one takes and the
//! other refuses is either a hole or an outage.

use adapter_ssh::whitelist::Command;
use proptest::prelude::*;
use relay_agent::whitelist::check_command;

fn agree(text: &str) {
    assert_eq!(Command::parse(text).is_ok(), check_command(text).is_ok(), "the layers differ on {text:?}");
}

// proves: H-09, G-XL, C-G13
#[test]
fn both_layers_say_the_same_of_every_known_trick() {
    let units = [
        "nginx",
        "nginx.service",
        "getty@tty1.service",
        r"a\x2db.service",
        "a:b",
        "foo.bar",
        "a.",
        "a..b",
        "-Hevil",
        "--",
        "1234",
        "1a",
        "a1",
        "12.34",
        "1-2",
        "1_2",
        "1:2",
        "1@",
        "*.service",
        "a/b",
        "_a",
        ".a",
        "@a",
        "",
        "a ",
        "\u{e9}",
    ];
    for unit in units {
        agree(&format!("systemctl status {unit}"));
    }
    for length in [254, 255, 256] {
        agree(&format!("systemctl status {}", "a".repeat(length)));
        agree(&format!("systemctl status {}", "1".repeat(length)));
    }
    for lines in 0..=1100 {
        agree(&format!("journalctl -n {lines}"));
    }
    for text in [
        "",
        "uptime",
        "uptime ",
        " uptime",
        "UPTIME",
        "df -h",
        "df  -h",
        "df\t-h",
        "free -m",
        "free -m\n",
        "systemctl list-units --type=service",
        "systemctl list-units",
        "systemctl status",
        "systemctl status ",
        "journalctl -n",
        "journalctl -n ",
        "journalctl -n 05",
        "journalctl -n +5",
        "journalctl -n 5 ",
        "rm -rf /",
    ] {
        agree(text);
    }
}

fn near_the_grammar() -> impl Strategy<Value = String> {
    let head = prop_oneof![
        Just("uptime"),
        Just("df -h"),
        Just("free -m"),
        Just("systemctl status "),
        Just("journalctl -n "),
        Just("systemctl list-units --type=service"),
        Just("systemctl status"),
        Just("journalctl"),
        Just(""),
    ];
    let tail = prop_oneof!["[0-9]{0,6}", "[a-zA-Z0-9_:@.\\\\-]{0,12}", "[ -~]{0,12}", "\\PC{0,4}", ".{0,4}"];
    (head, tail).prop_map(|(head, tail)| format!("{head}{tail}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn both_layers_say_the_same_near_the_grammar(text in near_the_grammar()) {
        prop_assert_eq!(Command::parse(&text).is_ok(), check_command(&text).is_ok(), "the layers differ on {:?}", text);
    }
}
