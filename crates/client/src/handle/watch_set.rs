//! A set of watches with one queue.

use std::sync::Arc;

use oxds_types::ResourceType;

use crate::driver::{ClientShared, Command, WatchEntry, Watcher};
use crate::load::LoadReporter;
use crate::update::{WatchEvent, WatcherQueue};

/// Any number of watches whose updates are read from one queue. Dropping it ends all of them.
#[derive(Debug)]
pub(crate) struct WatchSet {
    client: Arc<ClientShared>,
    queue: Arc<WatcherQueue>,
    entries: Vec<WatchEntry>,
}

impl WatchSet {
    pub(crate) fn new(client: Arc<ClientShared>) -> Self {
        Self {
            client,
            queue: Arc::default(),
            // Most sets have one watch, and a client may have many sets.
            entries: Vec::with_capacity(1),
        }
    }

    /// Starts a watch. An error in the name is queued as its first update.
    pub(crate) fn add(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        let (authority, canonical) = match self.client.authorities.find(resource_type, name) {
            Ok(found) => found,
            // gRFC A47: an error in the name concerns only this watcher; no request is sent (C-43, C-44, C-45).
            Err(error) => {
                return self.queue.put(WatchEvent::Changed {
                    resource_type: resource_type.clone(),
                    name: Arc::clone(name),
                    resource: Err(error),
                });
            }
        };
        let entry = WatchEntry {
            resource_type: resource_type.clone(),
            name: canonical,
            watcher: Watcher {
                spelled: Arc::clone(name),
                queue: Arc::clone(&self.queue),
            },
        };
        if !self.client.send(Command::Watch(authority, entry.clone())) {
            // The client's runtime has stopped, so no update will come.
            self.queue.close();
        }
        self.entries.push(entry);
    }

    /// Ends a watch, and drops its unread updates.
    pub(crate) fn remove(&mut self, resource_type: &ResourceType, name: &Arc<str>) {
        let is_match = |entry: &WatchEntry| {
            entry.resource_type == *resource_type && entry.watcher.spelled == *name
        };
        if let Some(index) = self.entries.iter().position(is_match) {
            let entry = self.entries.swap_remove(index);
            self.client.send(Command::Unwatch(entry));
        }
        self.queue.forget(resource_type, name);
    }

    pub(crate) fn node_id(&self) -> &str {
        &self.client.bootstrap.node().id
    }

    pub(crate) fn load_reporter(&self) -> &LoadReporter {
        &self.client.loads
    }

    /// Waits for the next update; `None` when the client's runtime has stopped. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<WatchEvent> {
        self.queue.next().await
    }

    /// Returns the next update that is already queued.
    pub(crate) fn take(&self) -> Option<WatchEvent> {
        self.queue.take()
    }
}

impl Drop for WatchSet {
    fn drop(&mut self) {
        for entry in std::mem::take(&mut self.entries) {
            self.client.send(Command::Unwatch(entry));
        }
        self.queue.abandon();
    }
}
