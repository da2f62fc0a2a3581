//! Files that are being written: when they may be read, and when their content may be served.
//!
//! ```text
//!              an event says that a program writes               the writer closes it, or nothing moves for 3 s
//!  ┌─────────┐ ───────────────────────────────────▶ ┌─────────┐ ─────────────────────────┐
//!  │ settled │                                      │ written │                          ▼
//!  └─────────┘ ◀──────────────── loses nothing ──────────────────────────────────── ┌──────┐
//!       ▲                                                                           │ read │
//!       │ replaced by a rename, or the stamp did not move for 0.5 s (1 s if polled) └──────┘
//!       │                                           ┌─────────┐ ◀── loses resources ─────┘
//!       └────────────────────────────────────────── │ shorter │
//!                                                   └─────────┘ ◀─┐ its stamp moves
//!                                                        └────────┘
//! ```
//!
//! A program that writes a file in place makes it empty first, and then longer. Read too early, such a file would
//! remove its resources from all clients. Pure: times are arguments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use oxds_types::file::Stamp;

use crate::store::documents::DocumentId;
use crate::store::finding::{Finding, Severity};

/// The time without a write after which a file is read although its writer has not closed it. Programs exist that keep
/// files open without end; a copy over a slow network pauses for less.
const OPEN_STILL: Duration = Duration::from_secs(3);
/// The longest time for which a writer that never pauses delays a change that loses nothing.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// The time without a change after which a closed file may lose resources: some programs truncate and write separately.
const CLOSED_STILL: Duration = Duration::from_millis(500);
/// The time between two equal looks at a file that no event is known of, after which it may lose resources. Longer than
/// the resolution of times on most network file systems.
const POLLED_STILL: Duration = Duration::from_secs(1);

/// The known state of the program that writes a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Writer {
    /// Nothing: the change was found by a poll, for example.
    #[default]
    Unknown,
    /// An event that does not concern the writer.
    Unchanged,
    /// The program has written, and did not close the file yet.
    Open,
    /// The program closed the file.
    Closed,
    /// The file was replaced by a rename, so its content is complete.
    Replaced,
}

impl Writer {
    /// Returns what is known after a newer event.
    pub(super) fn then(self, newer: Self) -> Self {
        match newer {
            Self::Unchanged => self,
            newer => newer,
        }
    }
}

/// The files that are not settled.
#[derive(Debug, Default)]
pub(super) struct Settling(BTreeMap<DocumentId, Unsettled>);

/// A file that is not settled.
#[derive(Debug)]
struct Unsettled {
    writer: Writer,
    /// The time of the first event.
    began: Instant,
    /// The time of the latest event or change of the stamp.
    moved: Instant,
    /// The stamp at the latest look.
    stamp: Option<Stamp>,
    /// The time of the next look. `None`: it is being read.
    due: Option<Instant>,
    /// The resources that it would lose. `None`: it was not read yet.
    losses: Option<usize>,
}

impl Settling {
    /// Records an event about a file. Returns whether the file should be read now; if not, it becomes [due](Self::due).
    pub(super) fn event(&mut self, id: &DocumentId, writer: Writer, now: Instant) -> bool {
        let file = self.entry(id, now);
        file.writer = file.writer.then(writer);
        file.moved = now;
        if file.writer == Writer::Open && now < file.began + OPEN_MAX {
            file.due = Some((now + OPEN_STILL).min(file.began + OPEN_MAX));
            return false;
        }
        file.due = None;
        true
    }

    /// Decides about a file that was read: whether its content may be served. If not, it becomes [due](Self::due) for
    /// another look. `losses` is the number of served resources that the content does not have any more.
    pub(super) fn is_settled(
        &mut self,
        id: &DocumentId,
        stamp: Stamp,
        losses: usize,
        now: Instant,
    ) -> bool {
        let file = self.entry(id, now);
        if file.stamp.is_some_and(|before| before != stamp) {
            file.moved = now;
        }
        file.stamp = Some(stamp);
        file.losses = Some(losses);
        let still = match file.writer {
            _ if losses == 0 => Duration::ZERO,
            Writer::Replaced => Duration::ZERO,
            Writer::Closed => CLOSED_STILL,
            Writer::Open => OPEN_STILL,
            Writer::Unknown | Writer::Unchanged => POLLED_STILL,
        };
        let due = file.moved + still;
        if now >= due {
            self.0.remove(id);
            return true;
        }
        file.due = Some(due);
        false
    }

    /// Forgets a file that was deleted.
    pub(super) fn forget(&mut self, id: &DocumentId) {
        self.0.remove(id);
    }

    /// Takes the files that must be looked at now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<DocumentId> {
        let mut due = Vec::new();
        for (id, file) in &mut self.0 {
            if file.due.is_some_and(|at| at <= now) {
                file.due = None;
                due.push(DocumentId::clone(id));
            }
        }
        due
    }

    /// Returns the time at which the next file is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().filter_map(|file| file.due).min()
    }

    /// Returns a finding for each file that is waited for.
    pub(super) fn findings(&self) -> impl Iterator<Item = Finding> {
        let waiting = self.0.iter().filter(|(_, file)| file.due.is_some());
        waiting.map(|(id, file)| {
            let message = match file.losses {
                None => "a program is writing the file: its last content stays served until it is complete"
                    .to_owned(),
                Some(losses) => {
                    let resources = if losses == 1 { "resource" } else { "resources" };
                    format!("the file lost {losses} {resources}, which stay served until it does not change any more")
                }
            };
            Finding {
                severity: Severity::Warning,
                ..Finding::for_file(id, Finding::WAITING, &message)
            }
        })
    }

    fn entry(&mut self, id: &DocumentId, now: Instant) -> &mut Unsettled {
        self.0.entry(DocumentId::clone(id)).or_insert(Unsettled {
            writer: Writer::Unknown,
            began: now,
            moved: now,
            stamp: None,
            due: None,
            losses: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns a state without files, a file, its stamp, another stamp, and the time.
    fn start() -> (Settling, DocumentId, Stamp, Stamp, Instant) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "a").unwrap();
        let (stamp, other) = (Stamp::of(&dir.path().join("a")), Stamp::default());
        let id = DocumentId::from(Path::new("a.yaml"));
        (Settling::default(), id, stamp, other, Instant::now())
    }

    #[test]
    fn open_file_is_not_read_until_closed() {
        let (mut settling, id, stamp, _, t0) = start();
        assert!(!settling.event(&id, Writer::Open, t0));
        assert_eq!(settling.findings().count(), 1, "it is shown");
        assert!(!settling.event(&id, Writer::Open, t0 + 1000 * MS));
        assert_eq!(
            settling.due(t0 + 3900 * MS),
            [],
            "it moved after one second"
        );
        assert!(settling.event(&id, Writer::Closed, t0 + 3900 * MS));
        assert!(settling.is_settled(&id, stamp, 0, t0 + 3950 * MS));
        assert_eq!(
            (settling.next_due(), settling.findings().count()),
            (None, 0)
        );
    }

    #[test]
    fn file_that_stays_open_is_read_when_still() {
        let (mut settling, id, stamp, _, t0) = start();
        assert!(!settling.event(&id, Writer::Open, t0));
        assert_eq!(settling.next_due(), Some(t0 + OPEN_STILL));
        assert_eq!(settling.due(t0 + OPEN_STILL), [DocumentId::clone(&id)]);
        assert!(settling.is_settled(&id, stamp, 5, t0 + OPEN_STILL));
    }

    /// Given a writer that never pauses, then a change that loses nothing is served in time, and a loss is not.
    #[test]
    fn writer_without_a_pause_delays_only_losses() {
        let (mut settling, id, stamp, other, t0) = start();
        let mut now = t0;
        while !settling.event(&id, Writer::Open, now) {
            now += 100 * MS;
            assert!(now <= t0 + OPEN_MAX);
        }
        assert!(!settling.is_settled(&id, stamp, 1, now));
        assert!(settling.event(&id, Writer::Open, now + 100 * MS));
        assert!(!settling.is_settled(&id, other, 1, now + 100 * MS));
        assert!(settling.event(&id, Writer::Open, now + 200 * MS));
        assert!(settling.is_settled(&id, stamp, 0, now + 200 * MS));
    }

    #[test]
    fn closed_file_loses_resources_only_when_still() {
        let (mut settling, id, stamp, other, t0) = start();
        assert!(settling.event(&id, Writer::Closed, t0));
        assert!(!settling.is_settled(&id, stamp, 1, t0 + 50 * MS));
        assert_eq!(settling.due(t0 + CLOSED_STILL), [DocumentId::clone(&id)]);
        // It has moved since, without an event.
        assert!(!settling.is_settled(&id, other, 1, t0 + CLOSED_STILL));
        let later = t0 + 2 * CLOSED_STILL;
        assert_eq!(settling.due(later), [DocumentId::clone(&id)]);
        assert!(settling.is_settled(&id, other, 1, later));
    }

    #[test]
    fn polled_file_needs_two_equal_looks() {
        let (mut settling, id, stamp, _, t0) = start();
        assert!(!settling.is_settled(&id, stamp, 1, t0));
        assert_eq!(settling.due(t0 + POLLED_STILL), [DocumentId::clone(&id)]);
        assert!(settling.is_settled(&id, stamp, 1, t0 + POLLED_STILL));
    }

    #[test]
    fn renamed_file_and_change_without_loss_are_served_at_once() {
        let (mut settling, id, stamp, _, t0) = start();
        assert!(settling.event(&id, Writer::Replaced, t0));
        assert!(settling.is_settled(&id, stamp, 100, t0));
        assert!(settling.is_settled(&id, stamp, 0, t0));
    }
}
