//! Changes that wait until the events pause.
//!
//! ```text
//!  ┌───────┐ event  ┌───────┐ quiet for 50 ms, or 500 ms after the first ┌────────┐
//!  │ clean │ ─────▶ │ dirty │ ─────────────────────────────────────────▶ │ looked │
//!  └───────┘        └───────┘                                            └────────┘
//! ```

use std::time::{Duration, Instant};

use super::events::{Dirty, Pending};

/// The longest time from the first event to the read, in quiet times, for files that are written all the time (S-72).
const MAX_QUIETS: u32 = 10;
/// The longest time for which deletions that do not pause are not applied: `rm -r` of a large folder takes a while, and
/// what it means is known at its end.
const MAX_DELETIONS: Duration = Duration::from_secs(5);
/// Changes that wait for a pause.
#[derive(Default)]
pub(super) struct Changes {
    dirty: Option<Dirty>,
    first: Option<Instant>,
    latest: Option<Instant>,
    deletion: Option<Instant>,
    /// Since when deletions are put off.
    put_off: Option<Instant>,
}

impl Changes {
    pub(super) fn add(&mut self, pending: Pending, now: Instant) {
        self.deletion = pending.deletion.or(self.deletion);
        let Some(more) = pending.dirty else { return };
        self.dirty = Some(match self.dirty.take() {
            None => more,
            Some(before) => before.and(more),
        });
        self.first.get_or_insert(now);
        self.latest = Some(now);
    }

    /// Asks for a walk once the present one has ended.
    pub(super) fn walk_again(&mut self, read_all: bool) {
        let dirty = if read_all {
            Dirty::Everything
        } else {
            Dirty::Stamps
        };
        self.add(Pending::of(dirty), Instant::now());
    }

    /// Returns the time at which the changes should be looked at.
    pub(super) fn due(&self, quiet: Duration) -> Option<Instant> {
        let (first, latest) = (self.first?, self.latest?);
        Some((latest + quiet).min(first + quiet * MAX_QUIETS))
    }

    pub(super) fn take(&mut self) -> Option<Dirty> {
        (self.first, self.latest) = (None, None);
        self.dirty.take()
    }

    /// Whether a deletion should be looked at again later, because files are still being deleted.
    pub(super) fn puts_off_deletion(&mut self, quiet: Duration) -> bool {
        let goes_on = self.deletion.is_some_and(|at| at.elapsed() < quiet);
        if !goes_on {
            self.put_off = None;
            return false;
        }
        self.put_off.get_or_insert_with(Instant::now).elapsed() < MAX_DELETIONS
    }
}
