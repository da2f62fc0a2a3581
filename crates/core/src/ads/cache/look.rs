//! What others are told of the cache.

use std::sync::Arc;

use oxds_types::Kind;

use super::entry::Entry;
use super::outbox::{ambient, changed};
use super::{Cache, Cached, Held, collection};
use crate::ads::Event;
use crate::ads::config::{AuthorityId, ServerId};
use crate::subscription::is_of_many;

impl Cache {
    /// All that is asked for of an authority.
    pub(in crate::ads) fn names(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&Kind, &Arc<str>)> {
        let watched = self.of(authority).filter(|(.., entry)| entry.watchers > 0);
        let names = watched.map(|(kind, name, _)| (kind, name));
        names.chain(self.collections.names(authority))
    }

    /// Whether a name of an authority has no answer yet.
    pub(in crate::ads) fn has_open(&self, authority: AuthorityId) -> bool {
        let mut of = self.of(authority);
        of.any(|(_, _, entry)| entry.is_open()) || self.collections.has_open(authority)
    }

    fn of(&self, authority: AuthorityId) -> impl Iterator<Item = (&Kind, &Arc<str>, &Entry)> {
        let entries = self.entries.iter();
        entries.filter(move |(_, _, entry)| entry.authority == authority)
    }

    /// What this server has sent of a kind, and is held.
    pub(in crate::ads) fn held_from(
        &self,
        server: ServerId,
        kind: &Kind,
    ) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.of_kind(kind);
        let held = entries.filter(move |(_, entry)| entry.is_of(server));
        held.map(|(name, _)| name)
    }

    /// What a new watcher is to be told at once (C-107).
    pub(in crate::ads) fn current(&self, kind: &Kind, name: &str) -> Vec<Event> {
        if is_of_many(name) {
            let members = self.members(kind, name);
            return members
                .flat_map(|(member, entry)| current(kind, member, entry))
                .chain(self.collections.current(kind, name))
                .collect();
        }
        let entry = self.entries.get(kind, name);
        entry.map_or_else(Vec::new, |(name, entry)| current(kind, name, entry))
    }

    pub(super) fn members(
        &self,
        kind: &Kind,
        collection: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let entries = self.entries.of_kind(kind);
        entries.filter(move |(name, _)| collection::has(collection, name))
    }

    pub(in crate::ads) fn cached(&self, kind: &Kind, name: &str) -> Option<Cached<'_>> {
        self.entries
            .get(kind, name)
            .map(|(_, entry)| entry.cached())
    }

    pub(in crate::ads) fn all(&self) -> impl Iterator<Item = (&Kind, &Arc<str>, Cached<'_>)> {
        let entries = self.entries.iter();
        entries.map(|(kind, name, entry)| (kind, name, entry.cached()))
    }

    /// The name as it is kept, and what is held of it: an update that equals it changes nothing (C-86).
    pub(in crate::ads) fn held(&self, kind: &Kind, name: &str) -> Option<(&Arc<str>, &Held)> {
        let (name, entry) = self.entries.get(kind, name)?;
        Some((name, entry.held()?))
    }

    /// What is held of a name, or of the names that it stands for, as this server sent it: name and version. What its
    /// last word on was a fault is to come again, for were it to go back to what is held, nothing else would clear the
    /// fault (C-111). Of what a name stands for it is said all the same, in no version, for it may be gone.
    pub(in crate::ads) fn versions_from(
        &self,
        server: ServerId,
        kind: &Kind,
        name: &str,
    ) -> Vec<(String, String)> {
        let is_of_many = is_of_many(name);
        let version = |(name, entry): (&Arc<str>, &Entry)| {
            let held = entry.held().filter(|held| held.server == server)?;
            let version = match entry.fault() {
                None => held.version.to_string(),
                Some(_) if is_of_many => String::new(),
                Some(_) => return None,
            };
            Some((name.to_string(), version))
        };
        match is_of_many {
            true => self.members(kind, name).filter_map(version).collect(),
            false => {
                let entry = self.entries.get(kind, name);
                entry.and_then(version).into_iter().collect()
            }
        }
    }
}

fn current(kind: &Kind, name: &Arc<str>, entry: &Entry) -> Vec<Event> {
    let told = match (entry.held(), entry.error()) {
        (Some(held), _) => Ok(held.resource.clone()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => return Vec::new(),
    };
    let mut events = vec![changed(kind, name, told)];
    if let (Some(_), Some(error)) = (entry.held(), entry.error()) {
        events.push(ambient(kind, name, Some(error.clone())));
    }
    events
}
