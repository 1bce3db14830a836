//! Layer 1 of the command whitelist: text becomes one of six commands, or is refused.
//!
//! Nothing is trimmed, folded or split on "white space": the text is one of the six, byte for byte, or it is not. What
//! travels to the agent is [`Command::canonical`], which the agent parses again with code that shares nothing with this.

use std::fmt;
use std::num::NonZeroU16;

use mcp_core::policy::Screen;
use serde_json::{Map, Value};

/// Most lines that `journalctl` may be asked for.
const MAX_LINES: u16 = 500;
/// Longest name of a unit, bytes (systemd's own limit is 255).
const MAX_UNIT: usize = 255;

/// One of the six commands. There is no other way to make a command, and no variant holds free text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `uptime`
    Uptime,
    /// `df -h`
    DiskFree,
    /// `free -m`
    MemoryFree,
    /// `systemctl status <unit>`
    UnitStatus(Unit),
    /// `journalctl -n <1..500>`
    Journal(NonZeroU16),
    /// `systemctl list-units --type=service`
    ListServices,
}

/// The name of a systemd unit that cannot be mistaken for an option, a process id or a pattern.
///
/// `systemctl status -Hevil.example` makes systemctl open an SSH connection, and a name of digits only is looked up as a
/// process id; both pass a naive pattern (CASES C-G02, C-G10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit(String);

/// The text is none of the six commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No command starts like this.
    #[error(
        "not one of the six allowed commands: uptime | df -h | free -m | systemctl status <unit> | \
         journalctl -n <1..500> | systemctl list-units --type=service"
    )]
    UnknownCommand,
    /// The unit's name is not plain.
    #[error(
        "not a plain unit name: letters, digits and : _ . @ \\ - only, starting with a letter or digit, \
         not digits only, at most 255 characters"
    )]
    Unit,
    /// The number of lines is not plain.
    #[error("the number of lines must be a plain number from 1 to 500")]
    Lines,
}

impl Command {
    /// Reads one of the six commands.
    ///
    /// # Errors
    /// [`Refused`] for everything else.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        match text {
            "uptime" => return Ok(Self::Uptime),
            "df -h" => return Ok(Self::DiskFree),
            "free -m" => return Ok(Self::MemoryFree),
            "systemctl list-units --type=service" => return Ok(Self::ListServices),
            _ => {}
        }
        if let Some(unit) = text.strip_prefix("systemctl status ") {
            return Unit::parse(unit).map(Self::UnitStatus);
        }
        if let Some(lines) = text.strip_prefix("journalctl -n ") {
            return parse_lines(lines).map(Self::Journal);
        }
        Err(Refused::UnknownCommand)
    }

    /// The one text of this command; [`Command::parse`] accepts exactly these texts.
    #[must_use]
    pub fn canonical(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uptime => f.write_str("uptime"),
            Self::DiskFree => f.write_str("df -h"),
            Self::MemoryFree => f.write_str("free -m"),
            Self::UnitStatus(Unit(unit)) => write!(f, "systemctl status {unit}"),
            Self::Journal(lines) => write!(f, "journalctl -n {lines}"),
            Self::ListServices => f.write_str("systemctl list-units --type=service"),
        }
    }
}

impl Unit {
    fn parse(name: &str) -> Result<Self, Refused> {
        let plain = |c: char| c.is_ascii_alphanumeric() || ":_.@\\-".contains(c);
        let is_unit = name.len() <= MAX_UNIT
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(plain)
            && !name.chars().all(|c| c.is_ascii_digit())
            && !name.contains("..");
        if is_unit { Ok(Self(name.to_owned())) } else { Err(Refused::Unit) }
    }
}

/// A number as people write it: ASCII digits, no sign, no leading zero. `u16::from_str` alone would take `+5` and `05`.
fn parse_lines(text: &str) -> Result<NonZeroU16, Refused> {
    let lines: NonZeroU16 = text.parse().map_err(|_| Refused::Lines)?;
    if lines.get() <= MAX_LINES && lines.to_string() == text { Ok(lines) } else { Err(Refused::Lines) }
}

/// The whitelist as the broker's screen: refused before an adapter is looked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandScreen;

impl Screen for CommandScreen {
    fn screen(&self, args: &Map<String, Value>) -> Result<(), String> {
        match args.get("command") {
            Some(Value::String(text)) => match Command::parse(text) {
                Ok(_) => Ok(()),
                Err(refused) => Err(refused.to_string()),
            },
            // Not a text, or missing: the schema says that better.
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // proves: H-01, Q3, C-G01, C-G09, REQ-026
    #[test]
    fn the_six_commands_are_read_and_written_alike() {
        for text in [
            "uptime",
            "df -h",
            "free -m",
            "systemctl status nginx",
            "systemctl status getty@tty1.service",
            "systemctl status user@1000.service",
            r"systemctl status systemd-cryptsetup@x\x2dy.service",
            "systemctl status a:b.service",
            "journalctl -n 1",
            "journalctl -n 500",
            "systemctl list-units --type=service",
        ] {
            assert_eq!(Command::parse(text).map(|command| command.canonical()).as_deref(), Ok(text));
        }
    }

    // proves: H-02, C-G02, C-G03, C-G10
    #[test]
    fn a_unit_is_never_an_option_a_process_id_or_a_pattern() {
        let long = "a".repeat(256);
        for unit in [
            "-Hevil.example",
            "-Hroot.evil",
            "-Mhost",
            "-a",
            "--all",
            "--root",
            "--help",
            "-",
            "--",
            "..",
            "a..b",
            "",
            ".service",
            "1234",
            "1",
            "*.service",
            "a/b",
            "@a",
            ":a",
            "_a",
            r"\x2d",
            long.as_str(),
            "nginx ",
            " nginx",
        ] {
            assert_eq!(Command::parse(&format!("systemctl status {unit}")), Err(Refused::Unit), "{unit:?}");
        }
    }

    // proves: H-03, C-G04, C-G05
    #[test]
    fn lines_are_a_plain_number_up_to_five_hundred() {
        for lines in [
            "501",
            "999",
            "0",
            "00",
            "05",
            "+5",
            "-5",
            "5e1",
            "all",
            "",
            " 5",
            "5 ",
            "٥٠",
            "５",
            "65537",
            "4294967297",
        ] {
            assert_eq!(Command::parse(&format!("journalctl -n {lines}")), Err(Refused::Lines), "{lines:?}");
        }
    }

    // proves: H-04, C-G06, C-G07, C-G08, B-02, G-INV7
    #[test]
    fn separators_control_characters_and_shell_words_are_refused() {
        for separator in
            ["  ", "\t", "\u{a0}", "\u{2003}", "\u{200b}", "\u{feff}", "\u{b}", "\u{c}", "\r", "\n"]
        {
            assert!(Command::parse(&format!("df{separator}-h")).is_err(), "{separator:?}");
            assert!(Command::parse(&format!("uptime{separator}")).is_err(), "{separator:?}");
            assert!(Command::parse(&format!("{separator}uptime")).is_err(), "{separator:?}");
        }
        for junk in [
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
        ] {
            assert!(Command::parse(&format!("systemctl status nginx{junk}")).is_err(), "{junk:?}");
            assert!(Command::parse(&format!("uptime{junk}")).is_err(), "{junk:?}");
        }
        for text in
            ["rm -rf /", "systemctl status nginx; rm -rf /", "UPTIME", "", "systemctl restart nginx", "sh"]
        {
            assert!(Command::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_its_own_canonical_text(text in "(systemctl status |journalctl -n )?[ -~]{0,20}") {
            if let Ok(command) = Command::parse(&text) {
                prop_assert_eq!(command.canonical(), text);
            }
        }

        #[test]
        fn nothing_makes_the_parser_panic(text in any::<String>()) {
            let _ = Command::parse(&text);
        }
    }
}
