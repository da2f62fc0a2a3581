//! Content that must be sent: added by requests and snapshot changes, taken by responses.

use std::{collections::BTreeSet, mem, sync::Arc};

use crate::snapshot::Revision;

/// Names and answers that are due.
///
/// Without a wildcard, each name is compared with the snapshot when a response is planned. With a wildcard, a due
/// name is sent whatever the cursor says.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) names: BTreeSet<Arc<str>>,
    /// Without a wildcard: all subscribed names are due, listed in `names` or not.
    pub(crate) all_names: bool,
    /// Assignments whose clusters change: sent again once no response is outstanding (S-54).
    pub(crate) assignments: BTreeSet<Arc<str>>,
    /// A response is due even if it is empty, so that the client stops waiting (S-27, S-31).
    pub(crate) answer: bool,
    /// A request asked for new names, which do not wait for the outstanding response (S-16).
    pub(crate) urgent: bool,
    /// Without a wildcard: changes up to this revision are among the due names.
    pub(crate) seen: Revision,
}

impl Pending {
    pub(crate) fn has_names(&self) -> bool {
        self.all_names || !self.names.is_empty()
    }

    /// Whether this subscribed name is due.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.all_names || self.names.contains(name)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        !self.has_names() && self.assignments.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.assignments.len()
    }

    pub(crate) fn add(&mut self, name: &Arc<str>) {
        self.names.insert(Arc::clone(name));
    }

    /// The client unsubscribed from this name, or its members are due in its place.
    pub(crate) fn unsubscribe(&mut self, name: &str) {
        self.names.remove(name);
        self.assignments.remove(name);
    }

    /// Takes the due names, and whether all were due.
    pub(crate) fn take_names(&mut self) -> (BTreeSet<Arc<str>>, bool) {
        (mem::take(&mut self.names), mem::take(&mut self.all_names))
    }

    /// Starts or repeats a wildcard subscription: a full answer is due, and these names besides.
    pub(crate) fn restart_wildcard(&mut self, names: BTreeSet<Arc<str>>) {
        *self = Self {
            names,
            answer: true,
            urgent: true,
            ..Self::default()
        };
    }

    /// Ends a wildcard subscription, and returns the names that were due besides it.
    pub(crate) fn end_wildcard(&mut self) -> BTreeSet<Arc<str>> {
        self.assignments.clear();
        self.answer = false;
        mem::take(&mut self.names)
    }
}
