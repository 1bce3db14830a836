//! GitHub's rate limits: how an answer tells of one, and not asking again before it is over.
//!
//! Asking a secondary limit again too early invites a ban of the user, so the order in which an answer is read is
//! GitHub's own: `retry-after`, then a quota that is spent, then the text of the body, then a minute.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::time::Instant;

/// How long a limit lasts that does not say.
const UNSAID: Duration = Duration::from_secs(60);
/// Quotas last an hour; no header may lock an adapter for longer.
const LONGEST: u64 = 3600;
/// How far into a body the words of a limit are looked for.
const SCANNED: usize = 8 * 1024;

/// What an answer says about limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Free,
    /// This answer is good, and it was the last one for so long.
    Spent(Duration),
    /// This answer is a refusal; ask again after so long.
    Refused(Duration),
}

/// The headers that tell of limits, as they came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RateHeaders<'a> {
    pub(crate) retry_after: Option<&'a str>,
    pub(crate) remaining: Option<&'a str>,
    pub(crate) reset: Option<&'a str>,
    pub(crate) date: Option<&'a str>,
}

/// Reads an answer. `clock` is our own time in seconds since 1970, for an answer without a date.
pub(crate) fn read(status: u16, headers: RateHeaders<'_>, body: &[u8], clock: u64) -> Verdict {
    // The upstream's own clock, where it tells it: the difference of two of its times does not depend on ours.
    let now = headers.date.and_then(date).unwrap_or(clock);
    let spent = (headers.remaining.map(str::trim) == Some("0")).then(|| {
        let reset = headers.reset.and_then(|reset| reset.trim().parse::<u64>().ok());
        reset.map_or(UNSAID, |reset| bounded(reset.saturating_sub(now)))
    });
    if status != 403 && status != 429 {
        return spent.map_or(Verdict::Free, Verdict::Spent);
    }
    let retry_after = headers.retry_after.and_then(|text| {
        let seconds = text.trim().parse::<u64>().ok();
        seconds.or_else(|| date(text).map(|until| until.saturating_sub(now))).map(bounded)
    });
    let told = (status == 429 || tells_of_a_limit(body)).then_some(UNSAID);
    retry_after.or(spent).or(told).map_or(Verdict::Free, Verdict::Refused)
}

fn bounded(seconds: u64) -> Duration {
    Duration::from_secs(seconds.clamp(1, LONGEST))
}

fn date(text: &str) -> Option<u64> {
    OffsetDateTime::parse(text.trim(), &Rfc2822).ok().and_then(|date| date.unix_timestamp().try_into().ok())
}

/// The secondary limit is often told by these words alone; the second wording is that of older servers.
fn tells_of_a_limit(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&body[..body.len().min(SCANNED)]).to_ascii_lowercase();
    text.contains("secondary rate limit") || text.contains("abuse detection mechanism")
}

/// Remembers until when nothing may be asked. The quota belongs to the user, so one gate covers a whole adapter.
#[derive(Debug, Default)]
pub(crate) struct RateGate {
    closed_until: Mutex<Option<Instant>>,
}

impl RateGate {
    /// How long the gate stays closed; nothing when it is open.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let closed_until = *self.closed_until.lock().unwrap_or_else(PoisonError::into_inner);
        closed_until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Closes the gate; a longer closure that stands already is kept.
    pub(crate) fn close(&self, now: Instant, wait: Duration) {
        let mut closed_until = self.closed_until.lock().unwrap_or_else(PoisonError::into_inner);
        *closed_until = (*closed_until).max(now.checked_add(wait));
    }
}

/// Whole seconds until it is worth asking again, rounded up.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn headers<'a>(retry_after: &'a str, remaining: &'a str, reset: &'a str) -> RateHeaders<'a> {
        let some = |text: &'a str| (!text.is_empty()).then_some(text);
        RateHeaders {
            retry_after: some(retry_after),
            remaining: some(remaining),
            reset: some(reset),
            date: None,
        }
    }

    const SECONDARY: &[u8] = br#"{"message":"You have exceeded a Secondary Rate Limit. Please wait"}"#;

    // proves: GH-07, GH-08, GH-09, C-E09
    #[test]
    fn limits_are_read_in_github_s_order() {
        let refused = |seconds| Verdict::Refused(Duration::from_secs(seconds));
        let table: &[(u16, RateHeaders<'_>, &[u8], Verdict)] = &[
            (403, headers("7", "0", "1000030"), SECONDARY, refused(7)),
            (429, headers("", "0", "1000030"), SECONDARY, refused(30)),
            (403, headers("", "0", "1000030"), b"", refused(30)),
            (403, headers("", "0", ""), b"", refused(60)),
            (403, headers("", "12", "1000030"), SECONDARY, refused(60)),
            (403, headers("", "", ""), b"You have triggered an abuse detection mechanism", refused(60)),
            (429, headers("", "12", "1000030"), b"", refused(60)),
            (429, headers("soon", "", ""), b"", refused(60)),
            // What a header says is bounded, and a reset in the past is no reason to ask at once.
            (429, headers("999999999", "", ""), b"", refused(3600)),
            (403, headers("", "0", "5"), b"", refused(1)),
            (403, headers("", "12", "1000030"), b"Resource not accessible", Verdict::Free),
            (200, headers("", "12", "1000030"), SECONDARY, Verdict::Free),
            (200, headers("", "0", "1000030"), b"", Verdict::Spent(Duration::from_secs(30))),
            (304, headers("", "0", "1000030"), b"", Verdict::Spent(Duration::from_secs(30))),
            (404, headers("", "", ""), b"", Verdict::Free),
        ];
        for (status, headers, body, wanted) in table {
            assert_eq!(read(*status, *headers, body, NOW), *wanted, "{status} {headers:?}");
        }
    }

    #[test]
    fn a_clock_that_is_wrong_does_not_matter_when_the_upstream_tells_its_own() {
        let date = Some("Thu, 01 Jan 1970 00:10:00 GMT");
        let spent = RateHeaders { date, ..headers("", "0", "630") };
        assert_eq!(read(403, spent, b"", NOW), Verdict::Refused(Duration::from_secs(30)));
        let dated = RateHeaders { date, ..headers("Thu, 01 Jan 1970 00:10:09 GMT", "", "") };
        assert_eq!(read(429, dated, b"", NOW), Verdict::Refused(Duration::from_secs(9)));
    }

    // proves: GH-06
    #[test]
    fn the_gate_opens_by_itself_and_keeps_the_longer_closure() {
        let (gate, now) = (RateGate::default(), Instant::now());
        assert_eq!(gate.wait(now), None);
        gate.close(now, Duration::from_secs(30));
        gate.close(now, Duration::from_secs(2));
        assert_eq!(gate.wait(now + Duration::from_secs(10)), Some(Duration::from_secs(20)));
        assert_eq!(gate.wait(now + Duration::from_secs(30)), None);
        assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
        assert_eq!(whole_seconds(Duration::ZERO), 1);
    }
}
