//! Request rates from reports with different intervals.
//!
//! ```text
//!   reports       ├──── 40 requests in 20 s ────┤├──── 20 requests in 20 s ────┤      now
//!   window of 10 s                                              ├──────────────┤       │
//!                                                                  10 requests: 1/s
//! ```
//! A window ends with the latest report. Once the next report is overdue, it ends now, so that the rate falls to zero.
//! Before the first report nothing is known, so a window does not begin before that.

use std::collections::VecDeque;
use std::time::Duration;

use oxds_core::time::Instant;

/// The longest window of a rate.
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// Reports that cover no more than this together are kept as one.
const MERGED: f64 = 2.0;
/// Reports that are kept. Merged ones cover the longest window with fewer; more come only if several processes report
/// as one node.
const MAX_REPORTS: usize = 64;
/// The bytes of a full history.
pub(super) const HISTORY_BYTES: usize = MAX_REPORTS * size_of::<Report>();

/// The time that a report covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Period {
    /// Seconds since the server started. The beginning may lie before that.
    end: f64,
    seconds: f64,
}

/// The reported requests of one locality, oldest first, for as long as the longest window needs them.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Report>);

#[derive(Debug, Clone, Copy)]
struct Report {
    period: Period,
    issued: u64,
}

/// The times of all reports of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coverage {
    /// Beginning of the first report, in seconds since the server started.
    began: f64,
    /// End of the latest report.
    ended: Instant,
    /// Time between two reports, as the client reports it.
    interval: Duration,
}

impl Period {
    /// Returns the period of this length that ends at `end`.
    pub(super) fn new(end: Instant, length: Duration) -> Self {
        Self {
            end: seconds(end),
            seconds: length.as_secs_f64(),
        }
    }

    fn begin(&self) -> f64 {
        self.end - self.seconds
    }

    /// Returns the part of the period, from 0 to 1, that lies between two times.
    fn part(&self, from: f64, to: f64) -> f64 {
        let common = self.end.min(to) - self.begin().max(from);
        if self.seconds > 0.0 {
            (common / self.seconds).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

impl History {
    pub(super) fn add(&mut self, period: Period, issued: u64) {
        let reports = &mut self.0;
        let oldest = period.end - WINDOW.as_secs_f64();
        reports.retain(|report| report.period.end > oldest);
        let new = Report { period, issued };
        match reports.back_mut() {
            Some(last) if last.joined(&new).period.seconds <= MERGED => *last = last.joined(&new),
            _ => reports.push_back(new),
        }
        if reports.len() > MAX_REPORTS
            && let (Some(first), Some(second)) = (reports.pop_front(), reports.front_mut())
        {
            *second = first.joined(second);
        }
    }

    /// Returns the issued requests per second in the window before `now`.
    pub(super) fn rate(&self, now: Instant, window: Duration, coverage: &Coverage) -> f64 {
        let to = seconds(coverage.until(now));
        let from = (to - window.as_secs_f64()).max(coverage.began);
        if to <= from {
            return 0.0;
        }
        let issued = self
            .0
            .iter()
            .map(|report| report.issued as f64 * report.period.part(from, to));
        issued.sum::<f64>() / (to - from)
    }
}

impl Report {
    /// Returns one report in place of two.
    fn joined(&self, later: &Self) -> Self {
        let begin = self.period.begin().min(later.period.begin());
        let end = self.period.end.max(later.period.end);
        Self {
            period: Period {
                end,
                seconds: end - begin,
            },
            issued: self.issued.saturating_add(later.issued),
        }
    }
}

impl Coverage {
    /// Returns the coverage of the first report.
    pub(super) fn first(period: &Period, now: Instant, interval: Duration) -> Self {
        Self {
            began: period.begin(),
            ended: now,
            interval,
        }
    }

    /// Adds a report.
    pub(super) fn add(&mut self, now: Instant, interval: Duration) {
        (self.ended, self.interval) = (now, interval);
    }

    /// Returns the end of the latest report.
    pub(super) fn ended(&self) -> Instant {
        self.ended
    }

    /// Returns the time between two reports.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the end of the windows at a time: the latest report, or now if the next one is overdue.
    fn until(&self, now: Instant) -> Instant {
        let overdue = now.saturating_since(self.ended) >= self.interval.saturating_mul(2);
        if overdue { now } else { self.ended }
    }
}

fn seconds(at: Instant) -> f64 {
    at.since_epoch().as_secs_f64()
}
