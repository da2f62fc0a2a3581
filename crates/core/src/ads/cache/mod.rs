//! What is held of each watched resource, and what its watchers have been told.
//!
//! ```text
//!                 ┌──────────── valid ────────────┐
//!                 ▼                               │
//!  Requested ─ valid ─► Acked ─ invalid ─► Nacked (data kept)
//!   │  │  │               │ deleted, or its time to live ended ─► DoesNotExist
//!   │  │  └─ invalid ─► Nacked (no data)
//!   │  └─ 15 s of silence ─► DoesNotExist ─ valid ─► Acked
//!   │          (30 s, Timeout: where silence means that the server is slow)
//!   └─ server lost: an error, and still Requested
//! ```
//! An error that the server sends for a resource is to it what an invalid update is (`ReceivedError` for `Nacked`). What
//! is held when something goes wrong is kept or dropped as the server's [`DataErrors`](super::DataErrors) say.
//!
//! Here is who watches; `answers` is what servers say of resources, `servers` what becomes of the servers, `look` what
//! is told of it all. A resource costs its bytes, its name, what was read of it, and an `Entry`: a test counts them.

mod answers;
mod collection;
mod deadlines;
mod entries;
mod entry;
mod held;
mod look;
mod outbox;
mod servers;
mod version;

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::selects_many;

pub(super) use deadlines::Due;
pub(super) use entry::{Expiry, Fault};
pub use held::{CacheState, CacheStatus, CachedResource, FailedUpdate};
pub use version::VersionText;

use super::ClientEvent;
use super::config::AuthorityId;
use crate::resource::ResourceParsers;
use collection::Collections;
use deadlines::Deadlines;
use entries::Entries;
use outbox::Outbox;

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: Entries,
    collections: Collections,
    deadlines: Deadlines,
    outbox: Outbox,
}

/// What becomes of what is held when something is wrong with the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// It stays in use: the error is ambient.
    Keep,
    /// It is dropped: the error takes its place.
    Drop,
}

impl Cache {
    /// Adds a watcher. `true` if it is the first.
    pub(super) fn watch(
        &mut self,
        authority: AuthorityId,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> bool {
        if selects_many(name) {
            return self.collections.watch(authority, resource_type, name);
        }
        let begun = self
            .entries
            .get_or_begin(resource_type, name, || Some(authority));
        begun.is_some_and(|entry| {
            entry.authority = authority;
            entry.watchers += 1;
            entry.watchers == 1
        })
    }

    /// Removes a watcher. If it was the last, the entry is gone (C-116): its authority is returned.
    pub(super) fn unwatch(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<AuthorityId> {
        if selects_many(name) {
            let authority = self.collections.unwatch(resource_type, name)?;
            self.forget_members(resource_type);
            return Some(authority);
        }
        let entry = self.entries.get_mut(resource_type, name)?;
        entry.watchers = entry.watchers.checked_sub(1)?;
        if entry.watchers > 0 {
            return None;
        }
        let authority = entry.authority;
        if !self.collections.holds(resource_type, name) {
            self.forget(resource_type, name);
        }
        Some(authority)
    }

    fn forget(&mut self, resource_type: &ResourceType, name: &str) {
        if let Some((name, mut entry)) = self.entries.remove(resource_type, name) {
            self.deadlines
                .set_silence(resource_type, &name, &mut entry, None);
            self.deadlines
                .set_expiry(resource_type, &name, &mut entry, None);
        }
    }

    /// What was held only through collections that nobody watches any more.
    fn forget_members(&mut self, resource_type: &ResourceType) {
        let entries = self.entries.of_type(resource_type);
        let left = entries.filter(|(name, entry)| {
            entry.watchers == 0 && !self.collections.holds(resource_type, name)
        });
        let left: Vec<_> = left.map(|(name, _)| Arc::clone(name)).collect();
        for name in left {
            self.forget(resource_type, &name);
        }
    }

    /// A new type reads the kind: it reads what is held, too. What it does not take stays as it is; whoever watches it as
    /// this type is told why there is none.
    pub(super) fn reread(&mut self, resource_type: &ResourceType, types: &ResourceParsers) {
        for entry in self.entries.of_type_mut(resource_type) {
            if let Some(held) = entry.held_mut() {
                held.resource.reread(resource_type, types);
            }
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<ClientEvent> {
        self.outbox.poll()
    }

    /// How many events there were.
    pub(super) fn told(&self) -> u64 {
        self.outbox.told()
    }
}
