//! Log lines that clients can cause: limited in number, so that no client can fill a disk or hide the lines of others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oxds_core::time::Instant;

/// The time for which lines are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// The lines of one sort in a window: enough for the restart of a fleet to be seen, and about 1 MB an hour.
const LINES: u32 = 100;

/// The sorts of lines that clients can cause. Each has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientLine {
    Identified,
    Disconnected,
    Nacked,
    UnknownType,
    HeldTooLong,
    SecretsDenied,
    LoadDropped,
    OldApi,
}

/// Counters of the lines that clients caused.
#[derive(Debug, Default)]
pub(crate) struct ClientLog([Mutex<Lines>; 8]);

/// The lines of one sort.
#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    written: u32,
    suppressed: u64,
}

/// A line that may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The lines of this sort that were not written since the line before; `None` for zero.
    pub(crate) suppressed: Option<u64>,
}

impl ClientLog {
    /// Returns whether another line of a sort may be written. If not, the line is counted.
    pub(crate) fn admit(&self, line: ClientLine, now: Instant) -> Option<Admitted> {
        // Every sort has a place in the array.
        let lines = self.0.get(line as usize)?;
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.since.is_none_or(|since| now - since >= WINDOW) {
            lines.since = Some(now);
            lines.written = 0;
        }
        if lines.written >= LINES {
            lines.suppressed += 1;
            return None;
        }
        lines.written += 1;
        let suppressed = std::mem::take(&mut lines.suppressed);
        Some(Admitted {
            suppressed: Some(suppressed).filter(|count| *count > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s60_lines_of_clients_are_limited_with_a_count() {
        let log = ClientLog::default();
        let at = |seconds| Instant::from_epoch(Duration::from_secs(seconds));
        let plain = Some(Admitted { suppressed: None });
        for _ in 0..LINES {
            assert_eq!(log.admit(ClientLine::Nacked, at(5)), plain);
        }
        for _ in 0..7 {
            assert_eq!(log.admit(ClientLine::Nacked, at(14)), None);
        }
        assert_eq!(
            log.admit(ClientLine::LoadDropped, at(14)),
            plain,
            "another sort"
        );
        let counted = Some(Admitted {
            suppressed: Some(7),
        });
        assert_eq!(log.admit(ClientLine::Nacked, at(15)), counted);
        assert_eq!(log.admit(ClientLine::Nacked, at(15)), plain);
    }
}
