//! Runs the client's machine: one task per client. No decision about the protocol is made here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oxds_core::ads::{AdsTransmit, AuthorityId, Client, ClientEvent, ServerId};
use oxds_core::resource::ResourceParser;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::name::{WILDCARD, collection_of, selects_many};
use tokio::sync::{mpsc, oneshot};

use super::dump::{Dumped, dump};
use super::feed::{Feed, Io};
use super::journal::Journal;
use super::mailbox::Mailbox;
use super::pace::Pace;
use crate::random::random;

/// What handles ask of the task.
#[derive(Debug)]
pub(super) enum Command {
    Watch(AuthorityId, Watched),
    Unwatch(Watched),
    Register(ResourceParser),
    /// Whoever asked may be gone.
    Dump(oneshot::Sender<Vec<Dumped>>),
}

/// A resource and who watches it.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) resource_type: ResourceType,
    /// As servers are asked for it.
    pub(super) name: Arc<str>,
    pub(super) watcher: Watcher,
}

#[derive(Debug, Clone)]
pub(super) struct Watcher {
    /// The name as its user spells it, which is how the mailbox is told of it.
    pub(super) spelt: Arc<str>,
    pub(super) mailbox: Arc<Mailbox>,
}

pub(super) struct Task {
    machine: Client,
    connections: Vec<Connection>,
    commands: mpsc::UnboundedReceiver<Command>,
    watchers: HashMap<(ResourceType, Arc<str>), Vec<Watcher>>,
    /// How many of them watch more than one name.
    collections: usize,
    patience_with_watchers: Duration,
    journal: Journal,
    /// The machine's clock starts here.
    epoch: tokio::time::Instant,
}

/// A server and what comes from it.
struct Connection {
    id: ServerId,
    feed: Feed,
    pace: Pace,
}

impl Task {
    /// The feeds are those of the servers that the machine was made for.
    pub(super) fn new(
        feeds: impl IntoIterator<Item = (ServerId, Feed)>,
        machine: Client,
        commands: mpsc::UnboundedReceiver<Command>,
        patience_with_watchers: Duration,
        journal: Journal,
    ) -> Self {
        let connection = |(id, feed)| Connection {
            id,
            feed,
            pace: Pace::default(),
        };
        Self {
            machine,
            connections: feeds.into_iter().map(connection).collect(),
            commands,
            watchers: HashMap::new(),
            collections: 0,
            patience_with_watchers,
            journal,
            epoch: tokio::time::Instant::now(),
        }
    }

    /// Runs until the last handle is dropped; its sockets are closed then.
    pub(super) async fn run(mut self) {
        // The stream that brought what there is to tell.
        let mut bringer = None;
        loop {
            self.settle(bringer.take());
            let timeout = self
                .machine
                .poll_timeout()
                .map(|at| self.epoch + at.since_epoch());
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                (index, io) = next_io(&mut self.connections) => {
                    self.take_in(index, io);
                    bringer = Some(index);
                }
                () = sleep_until(timeout) => self.machine.handle_timeout(self.now()),
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn obey(&mut self, first: Command) {
        let mut next = Some(first);
        // What was asked at once goes out in one request (C-77).
        while let Some(command) = next {
            match command {
                Command::Watch(authority, watched) => self.watch(authority, watched),
                Command::Unwatch(watched) => self.unwatch(watched),
                Command::Register(added) => self.machine.register(added),
                Command::Dump(answer) => drop(answer.send(dump(&self.machine, self.now()))),
            }
            next = self.commands.try_recv().ok();
        }
    }

    fn watch(&mut self, authority: AuthorityId, watched: Watched) {
        let Watched {
            resource_type,
            name,
            watcher,
        } = watched;
        let is_of_many = selects_many(&name);
        for event in self.machine.watch(authority, &resource_type, &name) {
            match is_of_many && subject(&event).1 != &name {
                true => watcher.mailbox.put_member(event),
                false => watcher.mailbox.put(watcher.spelt(&event)),
            }
        }
        let cached = self.machine.cached(&resource_type, &name);
        self.journal
            .resource(&resource_type, &name, cached.as_ref());
        self.collections += usize::from(is_of_many);
        match self.watchers.entry((resource_type, name)) {
            Entry::Occupied(mut watched) => watched.get_mut().push(watcher),
            // Most have no other: there is no room for one.
            Entry::Vacant(vacant) => {
                vacant.insert(vec![watcher]);
            }
        }
    }

    fn unwatch(&mut self, watched: Watched) {
        let key = (watched.resource_type, watched.name);
        let Some(watchers) = self.watchers.get_mut(&key) else {
            return;
        };
        let Some(index) = watchers
            .iter()
            .position(|watcher| watcher.is(&watched.watcher))
        else {
            return;
        };
        watchers.swap_remove(index);
        self.collections -= usize::from(selects_many(&key.1));
        if watchers.is_empty() {
            self.watchers.remove(&key);
        }
        self.machine.unwatch(&key.0, &key.1);
        if selects_many(&key.1) {
            // Its members may have gone with it.
            self.journal.reconcile(&self.machine);
        } else {
            let cached = self.machine.cached(&key.0, &key.1);
            self.journal.resource(&key.0, &key.1, cached.as_ref());
        }
    }

    fn take_in(&mut self, index: usize, io: Io) {
        let now = self.now();
        let (id, journal) = (self.connections[index].id, &mut self.journal);
        match io {
            Io::Opened(ends) => {
                journal.opened(id, ends);
                self.machine.handle_opened(id);
            }
            Io::Response(response) => {
                journal.response(id, &response);
                let updates = self.machine.handle_response(now, id, response);
                journal.judged(id, updates.as_ref());
            }
            Io::Difference(response) => {
                journal.response(id, &response);
                let updates = self.machine.handle_delta_response(now, id, response);
                journal.judged(id, updates.as_ref());
            }
            Io::Unchanged => self.machine.handle_unchanged(id),
            Io::Unanswered(cause) => {
                journal.unanswered(id, &cause);
                self.machine.handle_unanswered(id, &cause);
            }
            Io::Unreadable(reason) => {
                let updates = self.machine.handle_unreadable(now, id, &reason);
                journal.judged(id, updates.as_ref());
            }
            Io::Closed(ended) => {
                let cause = ended.to_string();
                journal.closed(id, &cause);
                self.machine.handle_closed(now, id, &cause, random());
            }
        }
    }

    fn settle(&mut self, bringer: Option<usize>) {
        while let Some((server, transmit)) = self.machine.poll_transmit(self.now()) {
            self.transmit(server, transmit);
        }
        self.journal.settle(&self.machine);
        while let Some(event) = self.machine.poll_event() {
            self.tell(&event, bringer);
        }
    }

    fn transmit(&mut self, server: ServerId, transmit: AdsTransmit) {
        let feed = &mut self.connections[server.index()].feed;
        match &transmit {
            AdsTransmit::Open if feed.connects() => self.journal.opening(server),
            AdsTransmit::SotwRequest(request) => self.journal.request(server, request),
            AdsTransmit::DeltaRequest(request) => self.journal.request(server, request),
            AdsTransmit::Close => self.journal.let_go(server),
            AdsTransmit::Open => {}
        }
        feed.transmit(transmit);
    }

    fn tell(&mut self, event: &ClientEvent, bringer: Option<usize>) {
        let (resource_type, name) = subject(event);
        let cached = self.machine.cached(resource_type, name);
        self.journal.event(event, cached.as_ref());
        self.journal.resource(resource_type, name, cached.as_ref());
        if matches!(event, ClientEvent::DeletionIgnored { .. }) {
            return;
        }
        let mut told = Vec::new();
        let watchers = self
            .watchers
            .get(&(resource_type.clone(), Arc::clone(name)));
        for watcher in watchers.into_iter().flatten() {
            watcher.mailbox.put(watcher.spelt(event));
            told.push(&watcher.mailbox);
        }
        if self.collections > 0 && !selects_many(name) {
            for collection in collection_of(name).into_iter().chain([WILDCARD.to_owned()]) {
                let watchers = self
                    .watchers
                    .get(&(resource_type.clone(), collection.into()));
                for watcher in watchers.into_iter().flatten() {
                    watcher.mailbox.put_member(event.clone());
                    told.push(&watcher.mailbox);
                }
            }
        }
        if let Some(bringer) = bringer {
            let pace = &mut self.connections[bringer].pace;
            for mailbox in told {
                pace.wait_for(mailbox, self.patience_with_watchers);
            }
        }
    }
}

impl Connection {
    /// What happens next, once the watchers of what happened last have read. Cancel-safe.
    async fn next(&mut self) -> Io {
        self.pace.keep().await;
        self.feed.next().await
    }
}

impl Watcher {
    /// The event, with the name as the watcher spells it.
    fn spelt(&self, event: &ClientEvent) -> ClientEvent {
        let mut event = event.clone();
        if let ClientEvent::Changed { name, .. } | ClientEvent::Ambient { name, .. } = &mut event {
            name.clone_from(&self.spelt);
        }
        event
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.mailbox, &other.mailbox) && self.spelt == other.spelt
    }
}

/// ResourceType and name of what an event is on.
fn subject(event: &ClientEvent) -> (&ResourceType, &Arc<str>) {
    let (ClientEvent::Changed {
        resource_type,
        name,
        ..
    }
    | ClientEvent::Ambient {
        resource_type,
        name,
        ..
    }
    | ClientEvent::DeletionIgnored {
        resource_type,
        name,
    }) = event;
    (resource_type, name)
}

/// What happens next on any of the feeds, and on which. Cancel-safe.
async fn next_io(connections: &mut [Connection]) -> (usize, Io) {
    let next = |connection| Box::pin(Connection::next(connection));
    let mut feeds: Vec<_> = connections.iter_mut().map(next).collect();
    poll_fn(|cx| {
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Poll::Ready(io) = feed.as_mut().poll(cx) {
                return Poll::Ready((index, io));
            }
        }
        Poll::Pending
    })
    .await
}

/// Watchers that outlive the task learn that no more will come, those that it has not heard of yet included.
impl Drop for Task {
    fn drop(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Watch(_, watched) = command {
                watched.watcher.mailbox.close();
            }
        }
        for watcher in self.watchers.values().flatten() {
            watcher.mailbox.close();
        }
    }
}

/// For ever, if there is no such time.
pub(crate) async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
