//! What is due when, by name: one look finds the next, however many wait.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::entry::{Entry, Expiry};
use crate::ads::config::ServerId;
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
    times: BTreeSet<(Instant, Due, ResourceType, Arc<str>)>,
}

impl Deadlines {
    /// From when on the silence of which server is an answer.
    pub(super) fn set_silence(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        entry: &mut Entry,
        new: Option<(ServerId, Instant)>,
    ) {
        let old = entry.silence();
        if old != new {
            entry.set_silence(new);
            let at = |silence: Option<(_, Instant)>| silence.map(|(_, at)| at);
            self.replace(Due::Silence, resource_type, name, at(old), at(new));
        }
    }

    /// When what is held ends.
    pub(super) fn set_expiry(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        entry: &mut Entry,
        new: Option<Expiry>,
    ) {
        let old = entry.expiry();
        if old != new {
            entry.set_expiry(new);
            let at = |expiry: Option<Expiry>| expiry.map(|expiry| expiry.at);
            self.replace(Due::Expiry, resource_type, name, at(old), at(new));
        }
    }

    /// Puts `new` in the place of `old`.
    fn replace(
        &mut self,
        due: Due,
        resource_type: &ResourceType,
        name: &Arc<str>,
        old: Option<Instant>,
        new: Option<Instant>,
    ) {
        if let Some(at) = old {
            self.times
                .remove(&(at, due, resource_type.clone(), Arc::clone(name)));
        }
        if let Some(at) = new {
            self.times
                .insert((at, due, resource_type.clone(), Arc::clone(name)));
        }
    }

    /// The next that has come.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Due, ResourceType, Arc<str>)> {
        let first = self.times.first().filter(|(at, ..)| *at <= now)?;
        let (_, due, resource_type, name) = first.clone();
        self.times.pop_first();
        Some((due, resource_type, name))
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.times.first().map(|(at, ..)| *at)
    }

    /// Those whose silence is being waited out.
    pub(super) fn silent(&self) -> Vec<(ResourceType, Arc<str>)> {
        let silent = self
            .times
            .iter()
            .filter(|(_, due, ..)| *due == Due::Silence);
        silent
            .map(|(_, _, resource_type, name)| (resource_type.clone(), Arc::clone(name)))
            .collect()
    }
}
