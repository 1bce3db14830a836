//! What the fake upstream answers, and how badly.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// What the server does with a request.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    reason: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    delay: Duration,
    drip: Option<Duration>,
    cut_after: Option<usize>,
    close_notify: bool,
    endless: bool,
    silent: bool,
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    /// In order, with `close_notify`.
    Close,
    /// The TCP connection only.
    CloseTcp,
    /// With a reset.
    Reset,
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: serde_json::Value) -> Self {
        Self::raw(status, "", &[("content-type", "application/json")], body.to_string())
    }

    /// An answer of any kind. An empty reason is replaced by the usual one. `Content-Length` is added, unless a
    /// header names it or `transfer-encoding`.
    pub fn raw(status: u16, reason: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Self {
        Self {
            status,
            reason: reason.to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: body.into(),
            delay: Duration::ZERO,
            drip: None,
            cut_after: None,
            close_notify: true,
            endless: false,
            silent: false,
        }
    }

    /// No byte, ever.
    pub fn silence() -> Self {
        Self { silent: true, ..Self::raw(200, "", &[], Bytes::new()) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn delay(mut self, time: Duration) -> Self {
        self.delay = time;
        self
    }

    /// Sends the body byte by byte, with this pause before each.
    #[must_use]
    pub fn drip(mut self, pause: Duration) -> Self {
        self.drip = Some(pause);
        self
    }

    /// Resets the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Sends `Connection: close` and no length, and closes TCP without TLS's `close_notify`, as Proxmox VE did.
    #[must_use]
    pub fn no_close_notify(mut self) -> Self {
        self.close_notify = false;
        self
    }

    /// Repeats the body, or blanks, for ever, without a length.
    #[must_use]
    pub fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    pub(super) async fn write(&self, out: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<After> {
        // Even a sleep of nothing takes the timer's millisecond.
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        if self.silent {
            std::future::pending::<()>().await;
        }
        out.write_all(self.head().as_bytes()).await?;
        out.flush().await?;
        if self.endless {
            let chunk =
                if self.body.is_empty() { Bytes::from(vec![b' '; 64 * 1024]) } else { self.body.clone() };
            loop {
                self.pause().await;
                out.write_all(&chunk).await?;
            }
        }
        let sent = self.cut_after.map_or(&self.body[..], |at| &self.body[..at.min(self.body.len())]);
        let step = if self.drip.is_some() { 1 } else { sent.len().max(1) };
        for part in sent.chunks(step) {
            self.pause().await;
            out.write_all(part).await?;
            out.flush().await?;
        }
        Ok(match self {
            Self { cut_after: Some(_), .. } => After::Reset,
            Self { close_notify: false, .. } => After::CloseTcp,
            _ if self.says("connection", "close") => After::Close,
            // Without a length the end is the end of the connection.
            _ if self.has("transfer-encoding") && !self.says("transfer-encoding", "chunked") => After::Close,
            _ => After::Keep,
        })
    }

    async fn pause(&self) {
        if let Some(pause) = self.drip {
            tokio::time::sleep(pause).await;
        }
    }

    fn head(&self) -> String {
        let reason = match (self.reason.as_str(), http::StatusCode::from_u16(self.status)) {
            ("", Ok(status)) => status.canonical_reason().unwrap_or_default(),
            (reason, _) => reason,
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.close_notify {
            head.push_str("connection: close\r\n");
        } else if !self.endless && !self.has("content-length") && !self.has("transfer-encoding") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head + "\r\n"
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    fn says(&self, name: &str, value: &str) -> bool {
        self.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value))
    }
}
