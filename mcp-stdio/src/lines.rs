//! Lines of bounded length, from a peer that may send anything.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Most bytes of a line: what the control plane takes as a body.
const LONGEST: usize = 1024 * 1024;

/// One line without its end, or that there was one too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads the next line; `None` at the end of the input. What is beyond the limit is read and dropped.
pub(crate) async fn next_line<R: AsyncBufRead + Unpin>(input: &mut R) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            let is_end = line.is_empty() && !is_too_long;
            return Ok((!is_end).then(|| finish(line, is_too_long)));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        if line.len() + taken > LONGEST {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(&chunk[..taken]);
        }
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(Some(finish(line, is_too_long)));
        }
    }
}

fn finish(mut line: Vec<u8>, is_too_long: bool) -> Line {
    if is_too_long {
        return Line::TooLong;
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Line::Text(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8]) -> Vec<Line> {
        let mut reader = tokio::io::BufReader::with_capacity(7, input);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader).await.expect("readable") {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_end_in_either_way_and_the_last_one_needs_no_end() {
        let text = |text: &str| Line::Text(text.as_bytes().to_vec());
        assert_eq!(
            all(b"one\ntwo\r\n\nlonger than a buffer").await,
            [text("one"), text("two"), text(""), text("longer than a buffer")]
        );
        assert_eq!(all(b"").await, []);
    }

    // proves: C-Q10
    #[tokio::test]
    async fn a_line_beyond_the_limit_is_dropped_and_the_next_one_is_read() {
        let mut input = vec![b'x'; LONGEST + 1];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&input).await, [Line::TooLong, Line::Text(b"next".to_vec())]);
        let most = vec![b'x'; LONGEST];
        assert_eq!(all(&most).await, [Line::Text(most.clone())]);
    }
}
