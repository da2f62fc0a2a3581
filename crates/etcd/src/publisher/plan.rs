//! Plan of a publish: its changes, what they collide with, and the writes that they need.
//!
//! ```text
//!  base ──┐
//!         ├─ diff ─▶ changes ──┐
//!  wanted ┘                    ├─ merge ─▶ result ──┐
//!                  published ──┘                    ├─ diff ─▶ writes
//!                                       in etcd ────┘
//! ```
//! The changes are made once, against the base. If another writer publishes first, they are merged with the new state:
//! so the other writer's changes stay, and a change of the same entry is a conflict (G-10).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use itertools::EitherOrBoth::{Both, Left, Right};
use oxds_types::{Fingerprint, ResourceType, Version};

use super::options::Wanted;
use super::summary::{ChangeKind, Summary};
use crate::digest::Digest;
use crate::entry::Entry;
use crate::lane_state::{Content, side_by_side};
use crate::stored::Stored;

/// Entries with their values.
pub(super) type Entries = BTreeMap<Entry, Arc<Stored>>;

/// Returns the readable entries.
pub(super) fn entries_of(content: Content) -> Entries {
    let entries = content.entries.into_iter();
    entries.map(|(entry, held)| (entry, held.stored)).collect()
}

/// A change that the writer wants.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// Version in the base; `None` if the base does not have the entry.
    base: Option<Version>,
    /// New value, or `None` for a removal.
    pub(super) new: Option<Arc<Stored>>,
}

/// Changes that the writer wants, by entry.
pub(super) type Changes = BTreeMap<Entry, Change>;

/// Returns the changes that lead from the base to the wanted state. With `prune`, entries that a wanted state does not
/// have are removed.
pub(super) fn changes(wanted: &Wanted, base: &Content, prune: bool) -> Changes {
    let mut changes = Changes::new();
    let mut add = |entry: &Entry, old: Option<&Arc<Stored>>, new: Option<&Arc<Stored>>| {
        if !is_same(old, new) {
            let (base, new) = (old.map(|old| old.digest_version()), new.cloned());
            changes.insert(entry.clone(), Change { base, new });
        }
    };
    match wanted {
        Wanted::State(wanted) => {
            side_by_side(&base.entries, wanted).for_each(|pair| match pair {
                Both((entry, old), (_, new)) => add(entry, Some(&old.stored), Some(new)),
                Right((entry, new)) => add(entry, None, Some(new)),
                Left((entry, old)) if prune => add(entry, Some(&old.stored), None),
                Left(_) => {}
            });
        }
        Wanted::Changes(wanted) => wanted
            .iter()
            .for_each(|(entry, new)| add(entry, base.stored(entry), new.as_ref())),
    }
    changes
}

/// Returns whether clients see no difference.
fn is_same(old: Option<&Arc<Stored>>, new: Option<&Arc<Stored>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.is_same_content(new),
        (None, None) => true,
        _ => false,
    }
}

/// Returns the entries that were published with another value since the base, and are changed here, too.
pub(super) fn conflicts(changes: &Changes, published: &Content) -> Vec<Entry> {
    let conflicting = changes.iter().filter(|(entry, change)| {
        let now = published.stored(entry);
        now.map(|now| now.digest_version()) != change.base && !is_same(now, change.new.as_ref())
    });
    conflicting.map(|(entry, _)| entry.clone()).collect()
}

/// A write of one key below the lane (`r/…`, `g/…`): a new value, or `None` to delete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) rest: Bytes,
    pub(super) value: Option<Bytes>,
}

/// Changes of the published state.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) summary: Summary,
    /// Digest of the result.
    pub(super) digest: Digest,
}

/// Returns what the changes make of the published state, whose digest is given.
pub(super) fn merge(changes: &Changes, published: &Content, mut digest: Digest) -> Merged {
    let mut summary = Summary::default();
    for (entry, change) in changes {
        let old = published.stored(entry);
        if is_same(old, change.new.as_ref()) {
            continue;
        }
        let version = |stored: &Arc<Stored>| stored.digest_version();
        digest.replace(
            entry,
            old.map(version).as_ref(),
            change.new.as_ref().map(version).as_ref(),
        );
        let kind = match (old, &change.new) {
            (None, _) => ChangeKind::Added,
            (_, Some(_)) => ChangeKind::Changed,
            (_, None) => ChangeKind::Removed,
        };
        summary.changes.insert(entry.clone(), kind);
    }
    Merged { summary, digest }
}

/// Returns the result, which is the published state with the changes of the summary, and the writes after which etcd
/// has exactly the result, sorted by key. `repaired` is the published state, if etcd has another one.
///
/// Only a repair compares all entries: otherwise, what is published is what etcd has.
pub(super) fn result(
    in_etcd: Content,
    repaired: Option<Content>,
    changes: &Changes,
    summary: &Summary,
) -> (Entries, Vec<Write>) {
    let mut writes: BTreeMap<Bytes, Option<Arc<Stored>>> = BTreeMap::new();
    writes.extend(in_etcd.unreadable.keys().map(|rest| (rest.clone(), None)));
    let rest = |entry: &Entry| Bytes::from(entry.text());
    if let Some(repaired) = &repaired {
        let pairs = side_by_side(&in_etcd.entries, &repaired.entries);
        writes.extend(pairs.filter_map(|pair| match pair {
            Both((_, held), (_, stored)) if held.stored == stored.stored => None,
            Both(_, (entry, held)) | Right((entry, held)) => {
                Some((rest(entry), Some(Arc::clone(&held.stored))))
            }
            Left((entry, _)) => Some((rest(entry), None)),
        }));
    }
    let new = |entry: &Entry| changes.get(entry).and_then(|change| change.new.clone());
    for entry in summary.changes.keys() {
        let (rest, new) = (rest(entry), new(entry));
        let is_readable = !in_etcd.unreadable.contains_key(&rest);
        if is_readable && in_etcd.stored(entry) == new.as_ref() {
            writes.remove(&rest);
        } else {
            writes.insert(rest, new);
        }
    }
    let mut result = entries_of(repaired.unwrap_or(in_etcd));
    for entry in summary.changes.keys() {
        match new(entry) {
            Some(new) => result.insert(entry.clone(), new),
            None => result.remove(entry),
        };
    }
    let writes = writes.into_iter().map(|(rest, stored)| Write {
        rest,
        value: stored.map(|stored| stored.encoded().clone()),
    });
    (result, writes.collect())
}

/// Returns the versions of the collections of resources for all nodes.
pub(super) fn versions_by_type(result: &Entries) -> BTreeMap<ResourceType, Version> {
    let mut types: BTreeMap<ResourceType, Fingerprint> = BTreeMap::new();
    for (entry, stored) in result {
        if let Entry::Resource(place) = entry
            && place.group.is_none()
        {
            let of_type = match types.get_mut(&place.resource_type) {
                Some(of_type) => of_type,
                None => types.entry(place.resource_type.clone()).or_default(),
            };
            of_type.add(&place.name, &stored.version());
        }
    }
    let types = types.into_iter();
    types
        .map(|(resource_type, sum)| (resource_type, sum.version()))
        .collect()
}
