//! Queue of a watcher: the newest unread update of each resource, never a backlog.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_types::ResourceType;
use tokio::sync::Notify;

use super::event::WatchEvent;
use super::resource::RawResource;

/// Limit of unread errors about collection members that the reader never got: a faulty server may invent any number of
/// names.
const MAX_UNDELIVERED_ERRORS: usize = 256;

/// Written by the driver, read by one watcher.
///
/// However slow the reader is, the size is bounded: by the names watched or, for a collection, by its resources and
/// those that the reader has got. A newer update of a resource replaces the older one, and a resource that is created
/// and deleted between two reads is not reported.
#[derive(Debug, Default)]
pub(crate) struct WatcherQueue {
    unread: Mutex<Unread>,
    arrived: Notify,
    /// Notified when no update is unread.
    emptied: Notify,
}

type ResourceKey = (ResourceType, Arc<str>);

#[derive(Debug, Default)]
struct Unread {
    updates: BTreeMap<ResourceKey, PendingUpdate>,
    /// Members of a collection (which has one type) that the reader got and whose deletion it has not got.
    delivered: HashSet<Arc<str>>,
    /// Errors about members that the reader never got, oldest first. Some may be read or replaced already.
    undelivered_errors: VecDeque<ResourceKey>,
    /// The driver writes no more.
    closed: bool,
    /// The watcher reads no more.
    abandoned: bool,
}

/// Unread updates of one resource.
#[derive(Debug, Default)]
struct PendingUpdate {
    changed: Option<Result<RawResource, WatchError>>,
    ambient: Option<Option<WatchError>>,
    /// The resource is watched as a member of a collection.
    is_member: bool,
}

impl WatcherQueue {
    /// Queues an update of a name that is watched itself.
    pub(crate) fn put(&self, event: WatchEvent) {
        self.write(event, false);
    }

    /// Queues an update of a member of a watched collection.
    pub(crate) fn put_member(&self, event: WatchEvent) {
        self.write(event, true);
    }

    fn write(&self, event: WatchEvent, is_member: bool) {
        let mut unread = self.lock();
        if unread.abandoned {
            return;
        }
        match event {
            WatchEvent::Changed {
                resource_type,
                name,
                resource,
            } => {
                let key = (resource_type, name);
                if let Err(error) = &resource
                    && is_member
                    && !unread.delivered.contains(&key.1)
                    && !unread.admit_error(&key, error)
                {
                    return self.notify_if_empty(&unread);
                }
                // An unread ambient error is about the old resource, so it is dropped with it.
                let update = PendingUpdate {
                    changed: Some(resource),
                    ambient: None,
                    is_member,
                };
                unread.updates.insert(key, update);
            }
            WatchEvent::Ambient {
                resource_type,
                name,
                error,
            } => {
                let update = unread.updates.entry((resource_type, name)).or_default();
                (update.ambient, update.is_member) = (Some(error), is_member);
            }
        }
        drop(unread);
        self.arrived.notify_one();
    }

    /// Ends the queue: the reader gets `None` after the unread updates.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Drops the unread updates of a resource.
    pub(crate) fn forget(&self, resource_type: &ResourceType, name: &Arc<str>) {
        let mut unread = self.lock();
        unread
            .updates
            .remove(&(resource_type.clone(), Arc::clone(name)));
        self.notify_if_empty(&unread);
    }

    /// Drops all unread updates and ignores further ones: the reader is gone.
    pub(crate) fn abandon(&self) {
        let mut unread = self.lock();
        *unread = Unread {
            abandoned: true,
            closed: unread.closed,
            ..Unread::default()
        };
        self.notify_if_empty(&unread);
    }

    /// Waits until everything is read. Cancel-safe.
    pub(crate) async fn empty(&self) {
        loop {
            // Created before the check, so that no notification in between is missed.
            let emptied = self.emptied.notified();
            if self.lock().updates.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn notify_if_empty(&self, unread: &Unread) {
        if unread.updates.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// Waits for the next update; `None` when the driver has stopped. For one reader. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<WatchEvent> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if self.lock().closed {
                return None;
            }
            self.arrived.notified().await;
        }
    }

    /// Returns the next update that is already queued.
    pub(crate) fn take(&self) -> Option<WatchEvent> {
        let mut guard = self.lock();
        let unread = &mut *guard;
        let mut first = unread.updates.first_entry()?;
        let (resource_type, name) = first.key().clone();
        let update = first.get_mut();
        if let Some(changed) = update.changed.as_ref().filter(|_| update.is_member) {
            match changed {
                Ok(_) => unread.delivered.insert(Arc::clone(&name)),
                Err(_) => unread.delivered.remove(&name),
            };
        }
        let event = match (update.changed.take(), update.ambient.take()) {
            // The resource comes first; its ambient error stays queued for the next read.
            (Some(resource), ambient) => {
                update.ambient = ambient;
                WatchEvent::Changed {
                    resource_type,
                    name,
                    resource,
                }
            }
            (None, error) => WatchEvent::Ambient {
                resource_type,
                name,
                error: error.flatten(),
            },
        };
        if first.get().ambient.is_none() {
            first.remove();
            self.notify_if_empty(unread);
        }
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unread {
    /// Returns whether to queue an error about a member that the reader never got.
    fn admit_error(&mut self, key: &ResourceKey, error: &WatchError) -> bool {
        // The reader does not know the resource, so its deletion means nothing to it.
        if error.reason == WatchErrorReason::DoesNotExist {
            self.updates.remove(key);
            return false;
        }
        if !self.is_error(key) {
            self.undelivered_errors.push_back(key.clone());
        }
        if self.undelivered_errors.len() > MAX_UNDELIVERED_ERRORS
            && let Some(oldest) = self.undelivered_errors.pop_front()
            && self.is_error(&oldest)
            && !self.delivered.contains(&oldest.1)
        {
            self.updates.remove(&oldest);
        }
        true
    }

    fn is_error(&self, key: &ResourceKey) -> bool {
        let update = self.updates.get(key);
        update.is_some_and(|update| matches!(update.changed, Some(Err(_))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> WatchError {
        WatchError::new(WatchErrorReason::Unreachable, text)
    }

    fn changed(name: &str, text: &str) -> WatchEvent {
        WatchEvent::Changed {
            resource_type: ResourceType::CLUSTER,
            name: name.into(),
            resource: Err(error(text)),
        }
    }

    fn text(event: &WatchEvent) -> String {
        match event {
            WatchEvent::Changed {
                name,
                resource: Err(error),
                ..
            } => format!("{name} {error}"),
            WatchEvent::Ambient {
                name,
                error: Some(error),
                ..
            } => format!("{name} ambient {error}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn slow_reader_gets_only_newest_update() {
        let queue = WatcherQueue::default();
        for update in ["one", "two", "three"] {
            queue.put(changed("a", update));
        }
        queue.put(changed("b", "other"));
        assert_eq!(queue.take().as_ref().map(text).as_deref(), Some("a three"));
        assert_eq!(queue.take().as_ref().map(text).as_deref(), Some("b other"));
        assert!(queue.take().is_none());
    }

    #[test]
    fn ambient_error_comes_after_its_resource() {
        let queue = WatcherQueue::default();
        queue.put(changed("a", "value"));
        let ambient = Some(error("late"));
        queue.put(WatchEvent::Ambient {
            resource_type: ResourceType::CLUSTER,
            name: "a".into(),
            error: ambient,
        });
        assert_eq!(queue.take().as_ref().map(text).as_deref(), Some("a value"));
        assert_eq!(
            queue.take().as_ref().map(text).as_deref(),
            Some("a ambient late")
        );
        assert!(queue.take().is_none());
    }

    fn member(name: &str, resource: Result<RawResource, WatchError>) -> WatchEvent {
        WatchEvent::Changed {
            resource_type: ResourceType::CLUSTER,
            name: name.into(),
            resource,
        }
    }

    fn present(name: &str) -> WatchEvent {
        let types = oxds_core::resource::ResourceParsers::default();
        let read = types.parse(&ResourceType::CLUSTER, b"c");
        member(name, Ok(RawResource::new(read.unwrap(), None, None)))
    }

    fn deleted(name: &str) -> WatchEvent {
        member(
            name,
            Err(WatchError::new(WatchErrorReason::DoesNotExist, "gone")),
        )
    }

    /// Reads all queued updates.
    fn read(queue: &WatcherQueue) -> Vec<String> {
        let text = |event| match event {
            WatchEvent::Changed { name, resource, .. } => format!("{name} {}", resource.is_ok()),
            other => format!("{other:?}"),
        };
        std::iter::from_fn(|| queue.take()).map(text).collect()
    }

    #[test]
    fn resource_created_and_deleted_unread_is_not_reported() {
        let queue = WatcherQueue::default();
        for n in 0..10_000 {
            let name = format!("member-{n}");
            queue.put_member(present(&name));
            queue.put_member(deleted(&name));
        }
        queue.put_member(present("stays"));
        assert_eq!(queue.lock().updates.len(), 1);
        assert_eq!(read(&queue), ["stays true"]);
    }

    #[test]
    fn deletion_is_reported_once_if_resource_was_delivered() {
        let queue = WatcherQueue::default();
        queue.put_member(present("a"));
        assert_eq!(read(&queue), ["a true"]);
        for _ in 0..3 {
            queue.put_member(deleted("a"));
            queue.put_member(present("a"));
        }
        queue.put_member(deleted("a"));
        assert_eq!(read(&queue), ["a false"]);
        queue.put_member(deleted("a"));
        assert_eq!(read(&queue), Vec::<String>::new());
        assert!(queue.lock().delivered.is_empty());
    }

    #[test]
    fn errors_of_undelivered_members_are_bounded() {
        let queue = WatcherQueue::default();
        for n in 0..10 * MAX_UNDELIVERED_ERRORS {
            let invalid = WatchError::new(WatchErrorReason::Invalid, "no cluster");
            queue.put_member(member(&format!("{n:05}"), Err(invalid)));
        }
        let updates = read(&queue);
        assert_eq!(updates.len(), MAX_UNDELIVERED_ERRORS);
        assert_eq!(updates.last().map(String::as_str), Some("02559 false"));
        assert!(queue.lock().undelivered_errors.len() <= MAX_UNDELIVERED_ERRORS);
    }
}
