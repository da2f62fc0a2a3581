//! What a watcher has yet to read: the newest word on each resource, never a backlog.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::ads::{ClientEvent, WatchError, WatchErrorReason};
use oxds_core::resource::ParsedResource;
use oxds_types::ResourceType;
use tokio::sync::Notify;

/// Of resources that the reader has never had, so many errors are kept: a server that invents names has no end of them.
const MOST_STRANGERS: usize = 256;

/// Written by the client's task, read by one watcher. However slow the reader, its size is bounded by the names watched,
/// or, of a collection, by the resources that there are and those that the reader was given: a newer word on a resource
/// replaces the one before, and one that has gone before the reader heard of it is not mentioned.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    words: Mutex<Words>,
    arrived: Notify,
    /// Nothing is unread any more.
    emptied: Notify,
}

type Key = (ResourceType, Arc<str>);

#[derive(Debug, Default)]
struct Words {
    unread: BTreeMap<Key, Word>,
    /// Of a collection, which is of one kind: what the reader was given, and has not been told to be gone.
    given: HashSet<Arc<str>>,
    /// Errors of members that it was not given, the oldest first; some may have been read, or replaced.
    strangers: VecDeque<Key>,
    /// No more will be written.
    closed: bool,
    /// No more will be read.
    abandoned: bool,
}

#[derive(Debug, Default)]
struct Word {
    changed: Option<Result<ParsedResource, WatchError>>,
    ambient: Option<Option<WatchError>>,
    /// It is on a member of a collection.
    of_member: bool,
}

impl Mailbox {
    /// A word on what is watched by its name.
    pub(super) fn put(&self, event: ClientEvent) {
        self.write(event, false);
    }

    /// A word on a member of a watched collection.
    pub(super) fn put_member(&self, event: ClientEvent) {
        self.write(event, true);
    }

    fn write(&self, event: ClientEvent, of_member: bool) {
        let mut words = self.lock();
        if words.abandoned {
            return;
        }
        match event {
            ClientEvent::Changed {
                resource_type,
                name,
                resource,
            } => {
                let key = (resource_type, name);
                if let Err(error) = &resource
                    && of_member
                    && !words.given.contains(&key.1)
                    && !words.admit(&key, error)
                {
                    return self.look_empty(&words);
                }
                // An error that was ambient to what is now replaced says nothing any more.
                let word = Word {
                    changed: Some(resource),
                    ambient: None,
                    of_member,
                };
                words.unread.insert(key, word);
            }
            ClientEvent::Ambient {
                resource_type,
                name,
                error,
            } => {
                let word = words.unread.entry((resource_type, name)).or_default();
                (word.ambient, word.of_member) = (Some(error), of_member);
            }
            ClientEvent::DeletionIgnored { .. } => return,
        }
        drop(words);
        self.arrived.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Forgets what is unread of a resource.
    pub(super) fn forget(&self, resource_type: &ResourceType, name: &Arc<str>) {
        let mut words = self.lock();
        words
            .unread
            .remove(&(resource_type.clone(), Arc::clone(name)));
        self.look_empty(&words);
    }

    /// Nobody will read any more.
    pub(super) fn abandon(&self) {
        let mut words = self.lock();
        *words = Words {
            abandoned: true,
            closed: words.closed,
            ..Words::default()
        };
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
    pub(crate) async fn next(&self) -> Option<ClientEvent> {
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
    pub(crate) fn take(&self) -> Option<ClientEvent> {
        let mut guard = self.lock();
        let words = &mut *guard;
        let mut first = words.unread.first_entry()?;
        let (resource_type, name) = first.key().clone();
        let word = first.get_mut();
        if let Some(changed) = word.changed.as_ref().filter(|_| word.of_member) {
            match changed {
                Ok(_) => words.given.insert(Arc::clone(&name)),
                Err(_) => words.given.remove(&name),
            };
        }
        let event = match (word.changed.take(), word.ambient.take()) {
            (Some(resource), ambient) => {
                word.ambient = ambient;
                ClientEvent::Changed {
                    resource_type,
                    name,
                    resource,
                }
            }
            (None, error) => ClientEvent::Ambient {
                resource_type,
                name,
                error: error.flatten(),
            },
        };
        if first.get().ambient.is_none() {
            first.remove();
            self.look_empty(words);
        }
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    /// Whether this error is to be told to a reader who was never given the member, not even if its error was told.
    fn admit(&mut self, key: &Key, error: &WatchError) -> bool {
        if error.reason == WatchErrorReason::DoesNotExist {
            self.unread.remove(key);
            return false;
        }
        if !self.is_error(key) {
            self.strangers.push_back(key.clone());
        }
        if self.strangers.len() > MOST_STRANGERS
            && let Some(oldest) = self.strangers.pop_front()
            && self.is_error(&oldest)
            && !self.given.contains(&oldest.1)
        {
            self.unread.remove(&oldest);
        }
        true
    }

    fn is_error(&self, key: &Key) -> bool {
        let word = self.unread.get(key);
        word.is_some_and(|word| matches!(word.changed, Some(Err(_))))
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::ads::WatchErrorReason;

    use super::*;

    fn error(text: &str) -> WatchError {
        WatchError::new(WatchErrorReason::Unreachable, text)
    }

    fn changed(name: &str, text: &str) -> ClientEvent {
        ClientEvent::Changed {
            resource_type: ResourceType::CLUSTER,
            name: name.into(),
            resource: Err(error(text)),
        }
    }

    fn text(event: &ClientEvent) -> String {
        match event {
            ClientEvent::Changed {
                name,
                resource: Err(error),
                ..
            } => format!("{name} {error}"),
            ClientEvent::Ambient {
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
        mailbox.put(ClientEvent::Ambient {
            resource_type: ResourceType::CLUSTER,
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

    fn member(name: &str, resource: Result<ParsedResource, WatchError>) -> ClientEvent {
        ClientEvent::Changed {
            resource_type: ResourceType::CLUSTER,
            name: name.into(),
            resource,
        }
    }

    fn there(name: &str) -> ClientEvent {
        let types = oxds_core::resource::ResourceParsers::default();
        let read = types.read(&ResourceType::CLUSTER, b"c");
        member(name, Ok(read.unwrap()))
    }

    fn gone(name: &str) -> ClientEvent {
        member(
            name,
            Err(WatchError::new(WatchErrorReason::DoesNotExist, "gone")),
        )
    }

    /// What a reader finds who reads all that there is.
    fn read(mailbox: &Mailbox) -> Vec<String> {
        let word = |event| match event {
            ClientEvent::Changed { name, resource, .. } => format!("{name} {}", resource.is_ok()),
            other => format!("{other:?}"),
        };
        std::iter::from_fn(|| mailbox.take()).map(word).collect()
    }

    #[test]
    fn of_what_came_and_went_unread_nothing_is_said() {
        let mailbox = Mailbox::default();
        for n in 0..10_000 {
            let name = format!("member-{n}");
            mailbox.put_member(there(&name));
            mailbox.put_member(gone(&name));
        }
        mailbox.put_member(there("stays"));
        assert_eq!(mailbox.lock().unread.len(), 1);
        assert_eq!(read(&mailbox), ["stays true"]);
    }

    #[test]
    fn that_something_went_is_said_to_who_had_it_and_once() {
        let mailbox = Mailbox::default();
        mailbox.put_member(there("a"));
        assert_eq!(read(&mailbox), ["a true"]);
        for _ in 0..3 {
            mailbox.put_member(gone("a"));
            mailbox.put_member(there("a"));
        }
        mailbox.put_member(gone("a"));
        assert_eq!(read(&mailbox), ["a false"]);
        mailbox.put_member(gone("a"));
        assert_eq!(read(&mailbox), Vec::<String>::new());
        assert!(mailbox.lock().given.is_empty());
    }

    #[test]
    fn errors_of_members_that_never_were_are_kept_up_to_a_bound() {
        let mailbox = Mailbox::default();
        for n in 0..10 * MOST_STRANGERS {
            let invalid = WatchError::new(WatchErrorReason::Invalid, "no cluster");
            mailbox.put_member(member(&format!("{n:05}"), Err(invalid)));
        }
        let words = read(&mailbox);
        assert_eq!(words.len(), MOST_STRANGERS);
        assert_eq!(words.last().map(String::as_str), Some("02559 false"));
        assert!(mailbox.lock().strangers.len() <= MOST_STRANGERS);
    }
}
