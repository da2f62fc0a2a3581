//! What a watcher has yet to read: the newest word on each resource, never a backlog.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::ads::{Event, WatchError};
use oxds_core::resource::Resource;
use oxds_types::Kind;
use tokio::sync::Notify;

/// Written by the client's task, read by one watcher. Its size is bounded by the names watched, however slow the
/// reader: a newer word on a resource replaces the one before.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    words: Mutex<Words>,
    arrived: Notify,
    /// Nothing is unread any more.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Words {
    unread: BTreeMap<(Kind, Arc<str>), Word>,
    /// No more will be written.
    closed: bool,
    /// No more will be read.
    abandoned: bool,
}

#[derive(Debug, Default)]
struct Word {
    changed: Option<Result<Resource, WatchError>>,
    ambient: Option<Option<WatchError>>,
}

impl Mailbox {
    pub(super) fn put(&self, event: Event) {
        let mut words = self.lock();
        if words.abandoned {
            return;
        }
        match event {
            Event::Changed {
                kind,
                name,
                resource,
            } => {
                // An error that was ambient to what is now replaced says nothing any more.
                let word = Word {
                    changed: Some(resource),
                    ambient: None,
                };
                words.unread.insert((kind, name), word);
            }
            Event::Ambient { kind, name, error } => {
                words.unread.entry((kind, name)).or_default().ambient = Some(error);
            }
            Event::DeletionIgnored { .. } => return,
        }
        drop(words);
        self.arrived.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Forgets what is unread of a resource.
    pub(super) fn forget(&self, kind: &Kind, name: &Arc<str>) {
        let mut words = self.lock();
        words.unread.remove(&(kind.clone(), Arc::clone(name)));
        self.look_empty(&words);
    }

    /// Nobody will read any more.
    pub(super) fn abandon(&self) {
        let mut words = self.lock();
        words.abandoned = true;
        words.unread.clear();
        self.look_empty(&words);
    }

    /// Waits until everything is read. Cancel-safe.
    pub(super) async fn empty(&self) {
        loop {
            // Made before it is looked, so that nothing is missed between.
            let emptied = self.emptied.notified();
            if self.lock().unread.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn look_empty(&self, words: &Words) {
        if words.unread.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// The next word; `None` when the client is gone. For one reader; cancel-safe.
    pub(crate) async fn next(&self) -> Option<Event> {
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

    /// The next word, if there is one already.
    pub(crate) fn take(&self) -> Option<Event> {
        let mut words = self.lock();
        let mut first = words.unread.first_entry()?;
        let (kind, name) = first.key().clone();
        let word = first.get_mut();
        let event = match (word.changed.take(), word.ambient.take()) {
            (Some(resource), ambient) => {
                word.ambient = ambient;
                Event::Changed {
                    kind,
                    name,
                    resource,
                }
            }
            (None, error) => Event::Ambient {
                kind,
                name,
                error: error.flatten(),
            },
        };
        if first.get().ambient.is_none() {
            first.remove();
            self.look_empty(&words);
        }
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::ads::Reason;

    use super::*;

    fn error(text: &str) -> WatchError {
        WatchError::new(Reason::Unreachable, text)
    }

    fn changed(name: &str, text: &str) -> Event {
        Event::Changed {
            kind: Kind::CLUSTER,
            name: name.into(),
            resource: Err(error(text)),
        }
    }

    fn text(event: &Event) -> String {
        match event {
            Event::Changed {
                name,
                resource: Err(error),
                ..
            } => format!("{name} {error}"),
            Event::Ambient {
                name,
                error: Some(error),
                ..
            } => format!("{name} ambient {error}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_slow_reader_finds_the_newest_word_alone() {
        let mailbox = Mailbox::default();
        for word in ["one", "two", "three"] {
            mailbox.put(changed("a", word));
        }
        mailbox.put(changed("b", "other"));
        assert_eq!(
            mailbox.take().as_ref().map(text).as_deref(),
            Some("a three")
        );
        assert_eq!(
            mailbox.take().as_ref().map(text).as_deref(),
            Some("b other")
        );
        assert!(mailbox.take().is_none());
    }

    #[test]
    fn a_remark_on_a_resource_comes_after_the_resource() {
        let mailbox = Mailbox::default();
        mailbox.put(changed("a", "value"));
        let remark = Some(error("late"));
        mailbox.put(Event::Ambient {
            kind: Kind::CLUSTER,
            name: "a".into(),
            error: remark,
        });
        assert_eq!(
            mailbox.take().as_ref().map(text).as_deref(),
            Some("a value")
        );
        assert_eq!(
            mailbox.take().as_ref().map(text).as_deref(),
            Some("a ambient late")
        );
        assert!(mailbox.take().is_none());
    }
}
