//! How long to stay away after a link ended: full jitter, so that the agents of a restarted control plane come back
//! spread out instead of all at once.

use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::link::LinkEnd;

/// The times between attempts. The agent never gives up, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// The first attempt comes within this time; each further one may take twice as long. 1 s.
    pub base: Duration,
    /// No attempt takes longer than this. 60 s.
    pub cap: Duration,
    /// The least time to stay away when the control plane refuses this agent, as it does once it was revoked. 5 min.
    pub refused: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            refused: Duration::from_secs(5 * 60),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Backoff {
    times: Reconnect,
    attempts: u32,
}

impl Backoff {
    pub(crate) fn new(times: Reconnect) -> Self {
        Self { times, attempts: 0 }
    }

    /// The wait after a link that ended like this and had been live for so long.
    pub(crate) fn after(&mut self, end: &LinkEnd, lived: Duration) -> Duration {
        self.wait(end, lived, random_fraction())
    }

    fn wait(&mut self, end: &LinkEnd, lived: Duration, fraction: f64) -> Duration {
        // A link that is accepted and dropped at once must not be retried at full speed for ever, so only one that held
        // for a while starts the count anew.
        if lived >= self.times.cap {
            self.attempts = 0;
        }
        let Reconnect { base, cap, refused } = self.times;
        match end {
            LinkEnd::Unauthorized(_) => refused + cap.mul_f64(fraction),
            // Two hosts with one key would throw each other out for ever; let that be a slow game.
            LinkEnd::Superseded => cap.mul_f64(0.5 + fraction / 2.0),
            // The far end may ask for patience, but not for us to go away.
            LinkEnd::Goodbye { after } => (*after).min(refused) + base.mul_f64(fraction),
            _ => {
                let doubled = base.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX));
                self.attempts = self.attempts.saturating_add(1);
                doubled.min(cap).mul_f64(fraction)
            }
        }
    }
}

/// Uniform between 0 and 1.
fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX),
        // Without randomness the longest wait is the polite one.
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost() -> LinkEnd {
        LinkEnd::Silent
    }

    // proves: C-M15
    #[test]
    fn waits_double_up_to_a_minute_and_never_end() {
        let mut backoff = Backoff::new(Reconnect::default());
        for expected in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            assert_eq!(backoff.wait(&lost(), Duration::ZERO, 1.0), SECOND * expected);
        }
        for _ in 0..1_000 {
            let wait = backoff.after(&lost(), Duration::ZERO);
            assert!(wait <= 60 * SECOND);
        }
        assert_eq!(
            backoff.wait(&lost(), Duration::ZERO, 0.5),
            30 * SECOND,
            "the jitter is over the whole wait"
        );
        assert_eq!(backoff.wait(&lost(), 59 * SECOND, 1.0), 60 * SECOND, "it did not hold");
        assert_eq!(backoff.wait(&lost(), 60 * SECOND, 1.0), SECOND, "it did");
    }

    // proves: C-M07
    #[test]
    fn a_refused_agent_stays_away_for_five_minutes() {
        let mut backoff = Backoff::new(Reconnect::default());
        let refused = LinkEnd::Unauthorized("revoked".to_owned());
        assert_eq!(backoff.wait(&refused, Duration::ZERO, 0.0), 300 * SECOND);
        assert_eq!(backoff.wait(&refused, Duration::ZERO, 1.0), 360 * SECOND);
    }

    #[test]
    fn a_goodbye_is_obeyed_within_reason() {
        let mut backoff = Backoff::new(Reconnect::default());
        let goodbye = |after| LinkEnd::Goodbye { after };
        assert_eq!(backoff.wait(&goodbye(3 * SECOND), Duration::ZERO, 0.5), Duration::from_millis(3_500));
        assert_eq!(backoff.wait(&goodbye(Duration::MAX), Duration::ZERO, 0.0), 300 * SECOND);
        assert_eq!(backoff.wait(&LinkEnd::Superseded, Duration::ZERO, 0.0), 30 * SECOND);
    }

    #[test]
    fn the_jitter_is_random() {
        let mut backoff = Backoff::new(Reconnect::default());
        let waits: std::collections::BTreeSet<_> =
            (0..20).map(|_| backoff.after(&lost(), Duration::ZERO)).collect();
        assert!(waits.len() > 10);
    }
}
