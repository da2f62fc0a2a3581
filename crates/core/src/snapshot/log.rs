//! Which names of a kind changed, and when.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::Revision;

/// An append-only log of changed names, ordered by revision and trimmed at its old end.
///
/// Persistent, as the snapshot it belongs to: appending shares the rest.
#[derive(Debug, Clone)]
pub(super) struct Log {
    entries: OrdMap<Revision, Arc<[Arc<str>]>>,
    /// Names in all entries.
    names: usize,
    /// The log knows everything that changed after this revision.
    floor: Revision,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            entries: OrdMap::new(),
            names: 0,
            floor: Revision::UNLOADED,
        }
    }

    /// A log that knows nothing of what was before this revision.
    pub(super) fn since_only(floor: Revision) -> Self {
        Self {
            floor,
            ..Self::new()
        }
    }

    /// The log with one entry more, trimmed from its old end to at most `limit` names. An entry that is itself beyond
    /// the limit is not kept: walking the maps is no dearer then.
    pub(super) fn push(&self, revision: Revision, names: Arc<[Arc<str>]>, limit: usize) -> Self {
        let mut log = self.clone();
        log.names += names.len();
        log.entries.insert(revision, names);
        while log.names > limit {
            let Some((oldest, names)) = log.entries.get_min().cloned() else {
                break;
            };
            log.names -= names.len();
            log.floor = oldest;
            log.entries.remove(&oldest);
        }
        log
    }

    /// The names that changed after `since`, those that did so repeatedly repeated. `None`: trimmed.
    pub(super) fn since(&self, since: Revision) -> Option<impl Iterator<Item = &Arc<str>>> {
        let after = (Bound::Excluded(since), Bound::Unbounded);
        (since >= self.floor).then(|| {
            self.entries
                .range(after)
                .flat_map(|(_, names)| names.iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Arc<[Arc<str>]> {
        names.iter().map(|&n| Arc::from(n)).collect()
    }

    fn since(log: &Log, revision: u64) -> Option<Vec<&str>> {
        Some(log.since(Revision(revision))?.map(|n| &**n).collect())
    }

    #[test]
    fn it_answers_from_the_floor_on() {
        let log = Log::new()
            .push(Revision(1), names(&["a", "b"]), 3)
            .push(Revision(4), names(&["c"]), 3)
            .push(Revision(5), names(&["a"]), 3);
        assert_eq!(since(&log, 0), None, "revision 1 was trimmed");
        assert_eq!(since(&log, 1), Some(vec!["c", "a"]));
        assert_eq!(since(&log, 4), Some(vec!["a"]));
        assert_eq!(since(&log, 5), Some(vec![]));
    }

    #[test]
    fn an_entry_beyond_the_limit_leaves_nothing_but_its_revision() {
        let log = Log::new().push(Revision(1), names(&["a"]), 2).push(
            Revision(2),
            names(&["a", "b", "c"]),
            2,
        );
        assert_eq!(since(&log, 1), None);
        assert_eq!(since(&log, 2), Some(vec![]));
    }
}
