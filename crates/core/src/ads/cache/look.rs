//! What others are told of the cache.

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::selects_many;

use super::entry::Entry;
use super::outbox::{ambient, changed};
use super::{Cache, CacheStatus, CachedResource, collection};
use crate::ads::ClientEvent;
use crate::ads::config::{AuthorityId, ServerId};

impl Cache {
    /// All that is asked for of an authority.
    pub(in crate::ads) fn names(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        let watched = self.of(authority).filter(|(.., entry)| entry.watchers > 0);
        let names = watched.map(|(resource_type, name, _)| (resource_type, name));
        names.chain(self.collections.names(authority))
    }

    /// Whether a name of an authority has no answer yet.
    pub(in crate::ads) fn has_open(&self, authority: AuthorityId) -> bool {
        let mut of = self.of(authority);
        of.any(|(_, _, entry)| entry.is_open()) || self.collections.has_open(authority)
    }

    fn of(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &Entry)> {
        let entries = self.entries.iter();
        entries.filter(move |(_, _, entry)| entry.authority == authority)
    }

    /// What this server has sent of a kind, and is held.
    pub(in crate::ads) fn held_from(
        &self,
        server: ServerId,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = &Arc<str>> {
        let entries = self.entries.of_type(resource_type);
        let held = entries.filter(move |(_, entry)| entry.is_of(server));
        held.map(|(name, _)| name)
    }

    /// What a new watcher is to be told at once (C-107).
    pub(in crate::ads) fn current(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Vec<ClientEvent> {
        if selects_many(name) {
            let members = self.members(resource_type, name);
            return members
                .flat_map(|(member, entry)| current(resource_type, member, entry))
                .chain(self.collections.current(resource_type, name))
                .collect();
        }
        let entry = self.entries.get(resource_type, name);
        entry.map_or_else(Vec::new, |(name, entry)| {
            current(resource_type, name, entry)
        })
    }

    pub(super) fn members(
        &self,
        resource_type: &ResourceType,
        collection: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let entries = self.entries.of_type(resource_type);
        entries.filter(move |(name, _)| collection::has(collection, name))
    }

    pub(in crate::ads) fn cached(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<CacheStatus<'_>> {
        self.entries
            .get(resource_type, name)
            .map(|(_, entry)| entry.cached())
    }

    pub(in crate::ads) fn all(
        &self,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, CacheStatus<'_>)> {
        let entries = self.entries.iter();
        entries.map(|(resource_type, name, entry)| (resource_type, name, entry.cached()))
    }

    /// The name as it is kept, and what is held of it: an update that equals it changes nothing (C-86).
    pub(in crate::ads) fn held(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(&Arc<str>, &CachedResource)> {
        let (name, entry) = self.entries.get(resource_type, name)?;
        Some((name, entry.held()?))
    }

    /// What is held of a name, or of the names that it stands for, as this server sent it: name and version. What its
    /// last word on was a fault is to come again, for were it to go back to what is held, nothing else would clear the
    /// fault (C-111). Of what a name stands for it is said all the same, in no version, for it may be gone.
    pub(in crate::ads) fn versions_from(
        &self,
        server: ServerId,
        resource_type: &ResourceType,
        name: &str,
    ) -> Vec<(String, String)> {
        let is_of_many = selects_many(name);
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
            true => self
                .members(resource_type, name)
                .filter_map(version)
                .collect(),
            false => {
                let entry = self.entries.get(resource_type, name);
                entry.and_then(version).into_iter().collect()
            }
        }
    }
}

fn current(resource_type: &ResourceType, name: &Arc<str>, entry: &Entry) -> Vec<ClientEvent> {
    let told = match (entry.held(), entry.error()) {
        (Some(held), _) => Ok(held.resource.clone()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => return Vec::new(),
    };
    let mut events = vec![changed(resource_type, name, told)];
    if let (Some(_), Some(error)) = (entry.held(), entry.error()) {
        events.push(ambient(resource_type, name, Some(error.clone())));
    }
    events
}
