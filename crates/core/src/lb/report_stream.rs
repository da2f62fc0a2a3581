//! Stream of load reports of one connection: when it is opened again (gRFC A51).
//!
//! ```text
//!                ended after a report
//!               ┌────────────────────┐
//!               ▼                    │    ended
//!            ┌──────┐ ───────────────┘ ─────────────▶ ┌─────────────┐
//!     start ▶│ Open │                                 │ Backing off │
//!            └──────┘ ◀───────────────────────────────└─────────────┘
//!               │ UNIMPLEMENTED          time is over
//!               ▼
//!          ┌─────────┐
//!          │ Stopped │ until the next connection, which has a machine of its own
//!          └─────────┘
//! ```

use std::time::Duration;

use crate::backoff::Backoff;
use crate::time::Instant;

/// Status code of a server without the method.
const UNIMPLEMENTED: u32 = 12;

/// Age from which the end of a stream with reports does not back off. The rule of gRPC has no limit; this one is ours,
/// so that a server that ends each stream after a report causes no hot loop.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// State machine of the stream of reports on one connection.
#[derive(Debug)]
pub struct ReportStream {
    backoff: Backoff,
    state: ReportStreamState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportStreamState {
    Open { since: Instant, has_reported: bool },
    BackingOff { until: Instant },
    Stopped,
}

impl ReportStream {
    /// Makes the machine of a new connection. The stream must be opened at once.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            backoff: Backoff::default(),
            state: ReportStreamState::Open {
                since: now,
                has_reported: false,
            },
        }
    }

    /// Returns whether the stream must be open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, ReportStreamState::Open { .. })
    }

    /// Returns whether the server does not have the method: this connection gets no stream any more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state == ReportStreamState::Stopped
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            ReportStreamState::BackingOff { until } => Some(until),
            ReportStreamState::Open { .. } | ReportStreamState::Stopped => None,
        }
    }

    /// Opens the stream if the back-off is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|until| until <= now) {
            self.open(now);
        }
    }

    /// Handles a report.
    pub fn handle_report(&mut self) {
        if let ReportStreamState::Open { has_reported, .. } = &mut self.state {
            *has_reported = true;
            // gRFC A51: a report resets the back-off.
            self.backoff.reset();
        }
    }

    /// Handles the end of the stream with this gRPC status code. `random` is any uniform number.
    pub fn handle_end(&mut self, now: Instant, code: u32, random: u64) {
        let ReportStreamState::Open {
            since,
            has_reported,
        } = self.state
        else {
            return;
        };
        if code == UNIMPLEMENTED {
            // gRFC A51: the stream is not opened again on this connection.
            self.state = ReportStreamState::Stopped;
        } else if has_reported && now.saturating_since(since) >= SHORT_LIVED {
            // gRFC A51: after a report, the next attempt is made at once.
            self.open(now);
        } else {
            let until = now + self.backoff.next(random);
            self.state = ReportStreamState::BackingOff { until };
        }
    }

    fn open(&mut self, now: Instant) {
        self.state = ReportStreamState::Open {
            since: now,
            has_reported: false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNAVAILABLE: u32 = 14;
    /// Random number of a delay that is not changed.
    const MIDDLE: u64 = u64::MAX / 2;

    fn at(seconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_secs(seconds))
    }

    /// Returns the back-off after an end at this time, in seconds.
    fn end(stream: &mut ReportStream, now: Instant) -> f64 {
        stream.handle_end(now, UNAVAILABLE, MIDDLE);
        let until = stream.poll_timeout().unwrap();
        stream.handle_timeout(until);
        assert!(stream.is_open());
        until.saturating_since(now).as_secs_f64()
    }

    #[test]
    fn c250_failed_report_stream_backs_off() {
        let mut stream = ReportStream::new(at(0));
        assert!(stream.is_open());
        let first = end(&mut stream, at(5));
        let second = end(&mut stream, at(10));
        assert!(
            (0.99..1.01).contains(&first) && second > 1.5,
            "{first} {second}"
        );
        // A report resets the back-off, but a short stream still waits.
        stream.handle_report();
        let third = end(&mut stream, at(12));
        assert!((0.99..1.01).contains(&third), "{third}");
    }

    #[test]
    fn c250_report_stream_with_reports_opens_at_once() {
        let mut stream = ReportStream::new(at(0));
        stream.handle_report();
        stream.handle_end(at(60), UNAVAILABLE, MIDDLE);
        assert!(stream.is_open());
        // and an end without a report backs off
        stream.handle_end(at(120), UNAVAILABLE, MIDDLE);
        assert!(!stream.is_open());
        // and nothing opens it before the time
        stream.handle_timeout(at(120));
        assert!(!stream.is_open());
    }

    #[test]
    fn c250_unimplemented_report_stream_stops() {
        let mut stream = ReportStream::new(at(0));
        stream.handle_report();
        stream.handle_end(at(60), UNIMPLEMENTED, MIDDLE);
        assert!(stream.is_stopped() && !stream.is_open());
        stream.handle_timeout(at(1000));
        stream.handle_end(at(1000), UNAVAILABLE, MIDDLE);
        assert!(stream.is_stopped());
        assert_eq!(stream.poll_timeout(), None);
    }
}
