//! What is due when, by name: one look finds the next, however many wait.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_types::Kind;

use crate::time::Instant;

/// Why a moment matters to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ads) enum Due {
    /// The server has been silent about it for too long (gRFC A27).
    Silence,
    /// Its time to live ends (xDS protocol, "Resource TTL").
    Expiry,
}

/// The moments themselves; the entry of each resource says the same of itself.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    times: BTreeSet<(Instant, Due, Kind, Arc<str>)>,
}

impl Deadlines {
    /// Puts `new` in the place of `old`.
    pub(super) fn replace(
        &mut self,
        due: Due,
        kind: &Kind,
        name: &Arc<str>,
        old: Option<Instant>,
        new: Option<Instant>,
    ) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.times
                .remove(&(at, due, kind.clone(), Arc::clone(name)));
        }
        if let Some(at) = new {
            self.times.insert((at, due, kind.clone(), Arc::clone(name)));
        }
    }

    /// The next that has come.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Due, Kind, Arc<str>)> {
        let first = self.times.first().filter(|(at, ..)| *at <= now)?;
        let (_, due, kind, name) = first.clone();
        self.times.pop_first();
        Some((due, kind, name))
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.times.first().map(|(at, ..)| *at)
    }

    /// Those whose silence is being waited out.
    pub(super) fn silent(&self) -> Vec<(Kind, Arc<str>)> {
        let silent = self
            .times
            .iter()
            .filter(|(_, due, ..)| *due == Due::Silence);
        silent
            .map(|(_, _, kind, name)| (kind.clone(), Arc::clone(name)))
            .collect()
    }
}
