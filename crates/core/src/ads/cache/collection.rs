//! Watches of more than one name: all of a kind, or an `xdstp` collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::{WILDCARD, collection_of};

use super::outbox::{ambient, changed};
use crate::ads::config::AuthorityId;
use crate::ads::{ClientEvent, WatchError};

/// Whether a name is in a collection.
pub(super) fn has(collection: &str, name: &str) -> bool {
    collection == WILDCARD || collection_of(name).as_deref() == Some(collection)
}

/// The collections that are watched.
#[derive(Debug, Default)]
pub(super) struct Collections {
    resource_types: BTreeMap<ResourceType, BTreeMap<Arc<str>, Collection>>,
}

#[derive(Debug, Default)]
struct Collection {
    authority: AuthorityId,
    watchers: usize,
    /// The server has said something of the kind since it was asked.
    is_answered: bool,
    /// What is wrong with the whole.
    error: Option<WatchError>,
}

impl Collections {
    /// `true` if the watcher is the first.
    pub(super) fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> bool {
        let of = self
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        let collection = of.entry(Arc::clone(name)).or_default();
        collection.authority = authority;
        collection.watchers += 1;
        collection.watchers == 1
    }

    /// The authority, if the watcher was the last.
    pub(super) fn unwatch(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        let of = self.resource_types.get_mut(resource_type)?;
        let collection = of.get_mut(name)?;
        collection.watchers -= 1;
        if collection.watchers > 0 {
            return None;
        }
        of.remove(name).map(|collection| collection.authority)
    }

    pub(super) fn names(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        self.of(authority)
            .map(|(resource_type, name, _)| (resource_type, name))
    }

    pub(super) fn has_open(&self, authority: AuthorityId) -> bool {
        self.of(authority).any(|(.., of)| !of.is_answered)
    }

    fn of(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &Collection)> {
        let all = self.resource_types.iter().flat_map(|(resource_type, of)| {
            of.iter()
                .map(move |(name, collection)| (resource_type, name, collection))
        });
        all.filter(move |(.., collection)| collection.authority == authority)
    }

    /// The authority of a name that is in a collection.
    pub(super) fn authority(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        let of = self.resource_types.get(resource_type)?;
        let own = collection_of(name).and_then(|own| of.get(own.as_str()));
        own.or_else(|| of.get(WILDCARD))
            .map(|found| found.authority)
    }

    pub(super) fn holds(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.authority(resource_type, name).is_some()
    }

    /// What is wrong with the whole, for a new watcher.
    pub(super) fn current(&self, resource_type: &ResourceType, name: &str) -> Option<ClientEvent> {
        let (name, collection) = self
            .resource_types
            .get(resource_type)?
            .get_key_value(name)?;
        let error = collection.error.clone()?;
        Some(ambient(resource_type, name, Some(error)))
    }

    /// The server says that there is no such collection.
    pub(super) fn fail(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        error: WatchError,
    ) -> Option<ClientEvent> {
        self.lose(resource_type, name, error, false)
    }

    /// Its servers cannot be reached.
    pub(super) fn lose(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        error: WatchError,
        has_members: bool,
    ) -> Option<ClientEvent> {
        let collection = self.resource_types.get_mut(resource_type)?.get_mut(name)?;
        if collection.error.replace(error.clone()).as_ref() == Some(&error) {
            return None;
        }
        Some(match has_members {
            true => ambient(resource_type, name, Some(error)),
            false => changed(resource_type, name, Err(error)),
        })
    }

    /// The server has answered.
    pub(super) fn settle(&mut self, resource_type: &ResourceType) -> Vec<ClientEvent> {
        let of = self
            .resource_types
            .get_mut(resource_type)
            .into_iter()
            .flatten();
        let settled = of.filter_map(|(name, collection)| {
            collection.is_answered = true;
            let was_wrong = collection.error.take().is_some();
            was_wrong.then(|| ambient(resource_type, name, None))
        });
        settled.collect()
    }
}
