//! Output of a program as text that is safe to pass on: bounded, valid UTF-8, without control characters.

use std::iter::Peekable;
use std::str::Chars;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// What was kept of one stream.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    kept: Vec<u8>,
    truncated: bool,
}

/// Reads a stream to its end and keeps at most `cap` bytes.
///
/// The rest is read and thrown away: a program whose pipe is full would hang, and one whose pipe is closed would die of
/// it, and either would look like a failure of the program.
pub(crate) async fn drain(mut stream: impl AsyncRead + Unpin, cap: usize) -> Captured {
    let mut captured = Captured::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    // An error ends the stream just as its end does; there is nothing better to say than what was read.
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let fits = read.min(cap - captured.kept.len());
        captured.kept.extend_from_slice(&chunk[..fits]);
        captured.truncated |= fits < read;
    }
    captured
}

impl Captured {
    /// The text and whether some of it is missing.
    ///
    /// Bytes that are no UTF-8 become U+FFFD, which tells the reader that something else stood there. The text is never
    /// longer than `cap` bytes although each replacement is longer than the byte that it stands for.
    pub(crate) fn into_text(self, cap: usize) -> (String, bool) {
        let mut truncated = self.truncated;
        let mut text = strip_controls(&String::from_utf8_lossy(&self.kept));
        if text.len() > cap {
            text.truncate(text.floor_char_boundary(cap));
            truncated = true;
        }
        if self.truncated && text.ends_with(char::REPLACEMENT_CHARACTER) {
            // The cut went through a character; that is no flaw of the output.
            text.pop();
        }
        (text, truncated)
    }
}

/// Removes terminal sequences and every control character but line feed and tab: a log line must not be able to move a
/// reader's cursor, recolour a screen or hide what follows.
pub(crate) fn strip_controls(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            '\n' | '\t' => clean.push(c),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Skips what follows an ESC. Whatever does not look like a sequence stays, so that a lone ESC hides nothing.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_csi(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        Some(' '..='/') => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
        Some('0'..='~') => {
            chars.next();
        }
        Some(_) | None => {}
    }
}

/// Skips the parameters and the final byte of a control sequence.
fn skip_csi(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips a control string to its terminator, but never beyond its line: one that is left open would hide the rest.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_sequences_go_and_text_stays() {
        for (dirty, clean) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]0;left open\nnext line", "\nnext line"),
            ("\u{1b}(Bplain", "plain"),
            ("\u{1b}cplain", "plain"),
            ("\u{9b}31mplain", "plain"),
            ("\u{90}q\u{9c}plain", "plain"),
            ("\u{1b}é", "é"),
            ("\u{1b}", ""),
            ("a\r\nb\tc\0d\u{7f}e\u{8}f\u{85}g", "a\nb\tcdefg"),
            ("● nginx.service ä 日本", "● nginx.service ä 日本"),
        ] {
            assert_eq!(strip_controls(dirty), clean, "{dirty:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_and_cut_at_the_cap() {
        let (text, truncated) = drain(&b"abcdef"[..], 6).await.into_text(6);
        assert_eq!((text.as_str(), truncated), ("abcdef", false));
        let mut source = std::io::Cursor::new(vec![b'x'; 100_000]);
        let (text, truncated) = drain(&mut source, 10).await.into_text(10);
        assert_eq!((text.as_str(), truncated), ("xxxxxxxxxx", true));
        assert_eq!(source.position(), 100_000);
        let (text, truncated) = drain("ää".as_bytes(), 3).await.into_text(3);
        assert_eq!((text.as_str(), truncated), ("ä", true));
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_marked() {
        let (text, truncated) = drain(&b"a\xffb"[..], 100).await.into_text(100);
        assert_eq!((text.as_str(), truncated), ("a\u{fffd}b", false));
        let (text, truncated) = drain(&[0xff; 90][..], 90).await.into_text(90);
        assert_eq!((text.len(), truncated), (90, true));
    }

    proptest! {
        #[test]
        fn no_control_character_survives(text in "(\u{1b}|\u{9b}|\u{9d}|[\\[\\];m0-9]|\\PC|\\pC){0,40}") {
            prop_assert!(strip_controls(&text).chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }

        #[test]
        fn plain_lines_are_never_lost(lines in proptest::collection::vec("[a-z]{1,5}", 0..5), junk in "\\PC{0,9}") {
            // Whatever an opened sequence swallows, it stops at the end of its line.
            let text = format!("\u{1b}]{junk}\n{}", lines.join("\n"));
            prop_assert!(strip_controls(&text).ends_with(&lines.join("\n")));
        }
    }
}
