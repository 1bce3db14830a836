//! Layer 2 of the command whitelist: bytes become one of six commands, or are refused.
//!
//! The control plane has such a check too. This one shares no code with it and trusts nothing that it says: whoever has
//! taken over the control plane still gets six read-only commands out of this host, no more.
//!
//! The text is cut at each single space into at most three words, and the words are matched byte by byte. Nothing is
//! trimmed, folded or normalised, so that two texts never mean the same command.
//!
//! A unit's name may carry any suffix or none: systemctl itself appends `.service` to a name whose last part is no unit
//! type, and a wrong guess of ours could only refuse a unit that exists.

use std::fmt;

/// Words of the longest command.
const MOST_WORDS: usize = 3;
/// Longest name of a unit, bytes; systemd's own limit.
const LONGEST_UNIT: usize = 255;
/// Most lines of the journal.
const MOST_LINES: u16 = 500;

/// Says whether this text is one of the six commands.
///
/// # Errors
/// [`Rejected`] for every other text.
pub fn check_command(text: &str) -> Result<(), Rejected> {
    parse(text).map(|_| ())
}

/// Reads one of the six commands.
///
/// # Errors
/// [`Rejected`] for every other text.
pub fn parse(text: &str) -> Result<Command, Rejected> {
    let mut words: [&[u8]; MOST_WORDS] = [b""; MOST_WORDS];
    let mut count = 0;
    for word in text.as_bytes().split(|byte| *byte == b' ') {
        *words.get_mut(count).ok_or(Rejected::UnknownCommand)? = word;
        count += 1;
    }
    match &words[..count] {
        [b"uptime"] => Ok(Command::Uptime),
        [b"df", b"-h"] => Ok(Command::DiskFree),
        [b"free", b"-m"] => Ok(Command::MemoryFree),
        [b"systemctl", b"list-units", b"--type=service"] => Ok(Command::ListServices),
        [b"systemctl", b"status", unit] => scan_unit(unit).map(Command::UnitStatus),
        [b"journalctl", b"-n", lines] => scan_lines(lines).map(Command::Journal),
        _ => Err(Rejected::UnknownCommand),
    }
}

/// One of the six commands. [`parse`] alone makes the two that carry something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `uptime`
    Uptime,
    /// `df -h`
    DiskFree,
    /// `free -m`
    MemoryFree,
    /// `systemctl status <unit>`
    UnitStatus(UnitName),
    /// `journalctl -n <1..500>`
    Journal(LineCount),
    /// `systemctl list-units --type=service`
    ListServices,
}

/// Name of a systemd unit that is no option, no process id, no pattern and no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitName(String);

impl UnitName {
    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A number of lines, 1 to 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineCount(u16);

impl LineCount {
    /// The number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }
}

/// The text is none of the six commands. The words go to the control plane, so they quote nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// No command reads like this.
    #[error("the agent runs six commands and this is none of them")]
    UnknownCommand,
    /// The unit's name is not plain.
    #[error("the agent takes plain unit names only")]
    Unit,
    /// The number of lines is not plain.
    #[error("the agent takes a plain number of lines from 1 to 500 only")]
    Lines,
}

impl fmt::Display for Command {
    /// The one text that [`parse`] reads as this command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uptime => f.write_str("uptime"),
            Self::DiskFree => f.write_str("df -h"),
            Self::MemoryFree => f.write_str("free -m"),
            Self::UnitStatus(unit) => write!(f, "systemctl status {}", unit.as_str()),
            Self::Journal(lines) => write!(f, "journalctl -n {}", lines.get()),
            Self::ListServices => f.write_str("systemctl list-units --type=service"),
        }
    }
}

/// One pass over the bytes. The first must be a letter or digit, or systemctl would take the name for an option
/// (`-Hevil.example` makes it open an SSH connection); one must be no digit, or it would take it for a process id.
fn scan_unit(bytes: &[u8]) -> Result<UnitName, Rejected> {
    let mut name = String::with_capacity(bytes.len().min(LONGEST_UNIT));
    let mut digits_only = true;
    let mut after_dot = false;
    for (at, byte) in bytes.iter().copied().enumerate() {
        let fits = at < LONGEST_UNIT
            && match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => true,
                b'.' => at > 0 && !after_dot,
                b'_' | b':' | b'\\' | b'@' | b'-' => at > 0,
                _ => false,
            };
        if !fits {
            return Err(Rejected::Unit);
        }
        digits_only &= byte.is_ascii_digit();
        after_dot = byte == b'.';
        name.push(char::from(byte));
    }
    // An empty name has no byte that is not a digit either.
    if digits_only { Err(Rejected::Unit) } else { Ok(UnitName(name)) }
}

/// ASCII digits, at most three, the first not zero: no sign, no blank and no digits of other scripts can get in.
fn scan_lines(bytes: &[u8]) -> Result<LineCount, Rejected> {
    let ([b'1'..=b'9'] | [b'1'..=b'9', _] | [b'1'..=b'9', _, _]) = bytes else {
        return Err(Rejected::Lines);
    };
    let mut lines = 0;
    for byte in bytes {
        match byte {
            b'0'..=b'9' => lines = lines * 10 + u16::from(byte - b'0'),
            _ => return Err(Rejected::Lines),
        }
    }
    if lines <= MOST_LINES { Ok(LineCount(lines)) } else { Err(Rejected::Lines) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT_BYTES: &str = r"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:\@.-";

    /// The accepted unit names as a sentence, to hold the scanner against.
    fn is_unit(name: &str) -> bool {
        (1..=255).contains(&name.len())
            && name.chars().all(|c| UNIT_BYTES.contains(c))
            && name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
            && name.chars().any(|c| !c.is_ascii_digit())
            && !name.contains("..")
    }

    // proves: H-01, C-G01, C-G09
    #[test]
    fn the_six_commands_are_read() {
        assert_eq!(parse("uptime"), Ok(Command::Uptime));
        assert_eq!(parse("df -h"), Ok(Command::DiskFree));
        assert_eq!(parse("free -m"), Ok(Command::MemoryFree));
        assert_eq!(parse("systemctl list-units --type=service"), Ok(Command::ListServices));
        for lines in [1, 9, 10, 99, 100, 499, 500] {
            assert_eq!(parse(&format!("journalctl -n {lines}")), Ok(Command::Journal(LineCount(lines))));
        }
        for unit in [
            "nginx",
            "nginx.service",
            "getty@tty1.service",
            "user@1000.service",
            r"systemd-cryptsetup@x\x2dy.service",
            "a:b.service",
            "foo.bar",
            "9p",
            "A",
        ] {
            let command = Command::UnitStatus(UnitName(unit.to_owned()));
            assert_eq!(parse(&format!("systemctl status {unit}")), Ok(command), "{unit}");
        }
    }

    // proves: H-02, C-G02, C-G03, C-G10
    #[test]
    fn what_systemctl_would_take_for_something_else_is_no_unit() {
        let (longest, too_long) = ("a".repeat(255), "a".repeat(256));
        assert_eq!(check_command(&format!("systemctl status {longest}")), Ok(()));
        for unit in [
            "",
            "-",
            "--",
            "-a",
            "--all",
            "--help",
            "--root",
            "-Hevil.example",
            "-Mhost",
            "1",
            "1234",
            "..",
            "a..b",
            ".service",
            "@a",
            ":a",
            "_a",
            r"\x2d",
            "*",
            "*.service",
            "a?",
            "[a]",
            "a/b",
            "/",
            "näme",
            "a\0",
            "a;b",
            "a$b",
            "a=b",
            "a,b",
            "a+b",
            "a%b",
            &too_long,
        ] {
            assert_eq!(check_command(&format!("systemctl status {unit}")), Err(Rejected::Unit), "{unit:?}");
        }
    }

    // proves: H-03, C-G04, C-G05
    #[test]
    fn lines_are_a_plain_number_up_to_five_hundred() {
        for lines in [
            "", "0", "00", "01", "05", "010", "501", "999", "1000", "0500", "65537", "+5", "-5", "5e1",
            "0x1", "1_0", "1.", "all", "٥٠", "５", "5\n", "\t5",
        ] {
            assert_eq!(check_command(&format!("journalctl -n {lines}")), Err(Rejected::Lines), "{lines:?}");
        }
    }

    // proves: C-G06, C-G08
    #[test]
    fn nothing_is_normalised_and_nothing_may_follow() {
        for blank in ["  ", "\t", "\u{a0}", "\u{2003}", "\u{200b}", "\u{feff}", "\u{b}", "\u{c}", "\r", "\n"]
        {
            for text in [format!("df{blank}-h"), format!("df -h{blank}"), format!("{blank}df -h")] {
                assert!(check_command(&text).is_err(), "{text:?}");
            }
        }
        for junk in [
            " ",
            "\0",
            "\u{7f}",
            "\u{1b}[0m",
            "\u{202e}",
            "\u{301}",
            ";",
            "|",
            "&",
            "$(id)",
            "`id`",
            ">",
            "<",
            "*",
            "?",
            "[a]",
            "{a}",
            "~",
            "!",
            "#",
            "'",
            "\"",
            "\n",
            "; rm -rf /",
            " --now",
            " -H evil",
        ] {
            for command in ["uptime", "df -h", "systemctl status nginx", "journalctl -n 5"] {
                assert!(check_command(&format!("{command}{junk}")).is_err(), "{command} {junk:?}");
            }
        }
        for text in [
            "",
            " ",
            "UPTIME",
            "Uptime",
            "df",
            "df -H",
            "df -h /",
            "free",
            "sh",
            "rm -rf /",
            "/usr/bin/uptime",
            "systemctl",
            "systemctl status",
            "systemctl restart nginx",
            "systemctl list-units",
            "journalctl -f",
            "journalctl -n5",
            "journalctl",
            "uptime df -h",
            "systemctl list-units --type=service --all",
        ] {
            assert!(check_command(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_text_makes_the_scanner_panic(text in any::<String>()) {
            let _ = check_command(&text);
        }

        // proves: H-02
        #[test]
        fn a_unit_is_accepted_exactly_when_the_sentence_says_so(
            unit in prop_oneof![r"[ -~]{0,6}", r"[0-9a-c.@:\\_-]{0,8}", r"[a-c.]{250,258}", any::<String>()],
        ) {
            let text = format!("systemctl status {unit}");
            if !unit.contains(' ') {
                prop_assert_eq!(check_command(&text).is_ok(), is_unit(&unit), "{:?}", unit);
            } else {
                prop_assert!(check_command(&text).is_err());
            }
        }

        // proves: H-03
        #[test]
        fn a_number_is_accepted_exactly_when_it_prints_as_itself(lines in "[0-9+ -]{0,6}") {
            let plain = lines.parse::<u64>().is_ok_and(|n| (1..=500).contains(&n) && n.to_string() == lines);
            prop_assert_eq!(check_command(&format!("journalctl -n {lines}")).is_ok(), plain);
        }

        // proves: H-05
        #[test]
        fn whatever_is_accepted_is_the_text_of_its_command(
            text in prop_oneof![
                "[ -~]{0,24}",
                r"(systemctl status |journalctl -n |df |free |systemctl list-units )[ -~]{0,16}",
            ],
        ) {
            if let Ok(command) = parse(&text) {
                prop_assert_eq!(command.to_string(), text);
            }
        }
    }
}
