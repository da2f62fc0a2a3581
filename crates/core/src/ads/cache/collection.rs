//! Watches of more than one name: the wildcard of a type, or an `xdstp` collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::{WILDCARD, collection_of};

use crate::ads::authority_id::AuthorityId;
use crate::ads::error::WatchError;
use crate::ads::event::ClientEvent;

/// Returns whether a name is a member of a collection.
pub(super) fn has_member(collection: &str, name: &str) -> bool {
    collection == WILDCARD || collection_of(name).as_deref() == Some(collection)
}

/// All watched collections, by type and name.
#[derive(Debug, Default)]
pub(super) struct WatchedCollections {
    resource_types: BTreeMap<ResourceType, BTreeMap<Arc<str>, WatchedCollection>>,
}

#[derive(Debug, Default)]
struct WatchedCollection {
    authority: AuthorityId,
    watchers: u32,
    /// Whether the server has sent a response of the type since the collection was watched.
    is_answered: bool,
    /// Error of the collection as a whole.
    error: Option<WatchError>,
}

impl WatchedCollections {
    /// Adds a watcher. Returns whether it is the first.
    pub(super) fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> bool {
        let of_type = self
            .resource_types
            .entry(resource_type.clone())
            .or_default();
        let collection = of_type.entry(Arc::clone(name)).or_default();
        collection.authority = authority;
        collection.watchers += 1;
        collection.watchers == 1
    }

    /// Returns the number of watchers of a watched collection.
    pub(super) fn watchers(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<&mut u32> {
        let collection = self.resource_types.get_mut(resource_type)?.get_mut(name)?;
        Some(&mut collection.watchers)
    }

    /// Removes a collection. Returns its authority.
    pub(super) fn remove(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        let collection = self.resource_types.get_mut(resource_type)?.remove(name)?;
        Some(collection.authority)
    }

    pub(super) fn names(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>)> {
        self.of_authority(authority)
            .map(|(resource_type, name, _)| (resource_type, name))
    }

    pub(super) fn has_unanswered(&self, authority: AuthorityId) -> bool {
        self.of_authority(authority)
            .any(|(.., collection)| !collection.is_answered)
    }

    fn of_authority(
        &self,
        authority: AuthorityId,
    ) -> impl Iterator<Item = (&ResourceType, &Arc<str>, &WatchedCollection)> {
        let all = self
            .resource_types
            .iter()
            .flat_map(|(resource_type, of_type)| {
                of_type
                    .iter()
                    .map(move |(name, collection)| (resource_type, name, collection))
            });
        all.filter(move |(.., collection)| collection.authority == authority)
    }

    /// Returns every watched collection with its authority.
    pub(super) fn iter(&self) -> impl Iterator<Item = (AuthorityId, &ResourceType, &Arc<str>)> {
        let all = self.resource_types.iter();
        all.flat_map(|(resource_type, of_type)| {
            let of_type = of_type.iter();
            of_type.map(move |(name, collection)| (collection.authority, resource_type, name))
        })
    }

    /// Returns the authority and the number of watchers of a watched collection.
    pub(super) fn get(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<(AuthorityId, u32)> {
        let collection = self.resource_types.get(resource_type)?.get(name)?;
        Some((collection.authority, collection.watchers))
    }

    /// Returns the authority of a watched collection that has this name as a member.
    pub(super) fn authority(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        let of_type = self.resource_types.get(resource_type)?;
        let own = collection_of(name).and_then(|own| of_type.get(own.as_str()));
        own.or_else(|| of_type.get(WILDCARD))
            .map(|found| found.authority)
    }

    /// Returns whether any collection of the type is watched.
    pub(super) fn is_any_watched(&self, resource_type: &ResourceType) -> bool {
        let of_type = self.resource_types.get(resource_type);
        of_type.is_some_and(|of_type| !of_type.is_empty())
    }

    /// Returns whether a watched collection has this name as a member.
    pub(super) fn has(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.authority(resource_type, name).is_some()
    }

    /// Returns the event for a new watcher, if the collection has an error.
    pub(super) fn current(&self, resource_type: &ResourceType, name: &str) -> Option<ClientEvent> {
        let (name, collection) = self
            .resource_types
            .get(resource_type)?
            .get_key_value(name)?;
        let error = collection.error.clone()?;
        Some(ClientEvent::ambient(resource_type, name, Some(error)))
    }

    /// Records an error of the collection. Returns the event for its watchers, unless they have the same error already.
    ///
    /// The error is ambient if members are cached.
    pub(super) fn fail(
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
        Some(if has_members {
            ClientEvent::ambient(resource_type, name, Some(error))
        } else {
            ClientEvent::changed(resource_type, name, Err(error))
        })
    }

    /// Marks all collections of the type as answered. Returns the events for those whose error is over.
    pub(super) fn handle_answered(&mut self, resource_type: &ResourceType) -> Vec<ClientEvent> {
        let of_type = self
            .resource_types
            .get_mut(resource_type)
            .into_iter()
            .flatten();
        let recovered = of_type.filter_map(|(name, collection)| {
            collection.is_answered = true;
            let had_error = collection.error.take().is_some();
            had_error.then(|| ClientEvent::ambient(resource_type, name, None))
        });
        recovered.collect()
    }
}
