//! Log of the changed names of one type.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::settings::Revision;

/// Append-only log of changed names, ordered by revision, trimmed at its old end.
///
/// It is a persistent map, as the snapshot it belongs to: an appended log shares all other entries.
#[derive(Debug, Clone)]
pub(super) struct ChangeLog {
    entries: OrdMap<Revision, Arc<[Arc<str>]>>,
    /// Number of names in all entries.
    names: usize,
    /// The log has every change after this revision.
    floor: Revision,
}

impl ChangeLog {
    pub(super) fn new() -> Self {
        Self {
            entries: OrdMap::new(),
            names: 0,
            floor: Revision::UNLOADED,
        }
    }

    /// Returns a log without the changes up to this revision.
    pub(super) fn since_only(floor: Revision) -> Self {
        Self {
            floor,
            ..Self::new()
        }
    }

    /// Returns the log with one more entry, trimmed from its old end to at most `limit` names.
    ///
    /// An entry above the limit is not kept: a walk over the maps costs no more than reading it.
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

    /// Returns the names that changed after `since`, with repetitions; `None` if the log was trimmed beyond it.
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

    fn since(log: &ChangeLog, revision: u64) -> Option<Vec<&str>> {
        Some(log.since(Revision(revision))?.map(|n| &**n).collect())
    }

    #[test]
    fn log_has_the_changes_since_its_floor() {
        let log = ChangeLog::new()
            .push(Revision(1), names(&["a", "b"]), 3)
            .push(Revision(4), names(&["c"]), 3)
            .push(Revision(5), names(&["a"]), 3);
        assert_eq!(since(&log, 0), None, "revision 1 was trimmed");
        assert_eq!(since(&log, 1), Some(vec!["c", "a"]));
        assert_eq!(since(&log, 4), Some(vec!["a"]));
        assert_eq!(since(&log, 5), Some(vec![]));
    }

    #[test]
    fn entry_above_the_limit_leaves_only_its_revision() {
        let log = ChangeLog::new().push(Revision(1), names(&["a"]), 2).push(
            Revision(2),
            names(&["a", "b", "c"]),
            2,
        );
        assert_eq!(since(&log, 1), None);
        assert_eq!(since(&log, 2), Some(vec![]));
    }
}
