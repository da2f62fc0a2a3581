//! The task of a client. It makes no decision about the protocol: the state machine does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use oxds_core::ads::{AdsTransmit, AuthorityId, Client, ClientConfig, ClientEvent, ServerId};
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;
use oxds_types::name::{WILDCARD, collection_of, selects_many};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::command::{Command, WatchEntry, Watcher};
use super::flow_control::FlowControl;
use super::status::dump;
use crate::link::ServerLinks;
use crate::options::Options;
use crate::source::{Feed, Peer, SourceEvent};
use crate::supervise::{RESTART_DELAY, caught};
use crate::telemetry::{Observers, Telemetry};
use crate::timer::{at, sleep_until};
use crate::update::{RawResource, WatchEvent, WatcherQueue};

/// Everything that a driver is made of: with it, it starts again after a panic.
pub(super) struct DriverPlan {
    pub(super) config: ClientConfig,
    /// The servers of the configuration, in order.
    pub(super) peers: Vec<(ServerId, Peer)>,
    pub(super) node: Node,
    pub(super) options: Options,
    pub(super) links: ServerLinks,
}

impl DriverPlan {
    fn connections(&self) -> Vec<Connection> {
        let connection = |(id, peer): &(ServerId, Peer)| Connection {
            id: *id,
            feed: Feed::from_peer(peer.clone(), &self.node, &self.options, &self.links),
            flow_control: FlowControl::default(),
        };
        self.peers.iter().map(connection).collect()
    }
}

/// The task of a client.
pub(super) struct ClientDriver {
    plan: DriverPlan,
    machine: Client,
    /// One per server, in order of [`ServerId::index`].
    connections: Vec<Connection>,
    commands: mpsc::UnboundedReceiver<Command>,
    watchers: HashMap<(ResourceType, Arc<str>), Watchers>,
    /// Number of watchers of collections (`*` included).
    collection_watchers: usize,
    /// Names whose last watcher has left since the last request: the state machine drops them with the next one.
    unwatched: Vec<(ResourceType, Arc<str>)>,
    telemetry: Telemetry,
    /// Start of the state machine's clock.
    epoch: tokio::time::Instant,
}

/// Watchers of one name.
struct Watchers {
    authority: AuthorityId,
    list: Vec<Watcher>,
}

/// IO of one server.
struct Connection {
    id: ServerId,
    feed: Feed,
    flow_control: FlowControl,
}

impl ClientDriver {
    /// Creates the driver.
    pub(super) fn new(
        plan: DriverPlan,
        commands: mpsc::UnboundedReceiver<Command>,
        observers: Observers,
    ) -> Self {
        let connections = plan.connections();
        let servers = connections.iter();
        let servers = servers.map(|connection| (connection.id, connection.feed.uri().to_string()));
        Self {
            machine: Client::new(plan.config.clone()),
            telemetry: Telemetry::new(servers, observers),
            connections,
            plan,
            commands,
            watchers: HashMap::new(),
            collection_watchers: 0,
            unwatched: Vec::new(),
            epoch: tokio::time::Instant::now(),
        }
    }

    /// Runs until the last handle and watch are dropped. The sockets close then. After a panic, it starts again: its
    /// watchers stay, and get the resources of the new connections.
    pub(super) async fn supervise(mut self) {
        let mut has_panicked = false;
        loop {
            let running = async {
                if has_panicked {
                    self.restart();
                }
                self.run().await;
            };
            let Err(panic) = caught(running).await else {
                return;
            };
            tracing::error!(target: "oxds::ads", panic, "task panicked, it starts again");
            has_panicked = true;
            sleep(RESTART_DELAY).await;
        }
    }

    fn restart(&mut self) {
        self.machine = Client::new(self.plan.config.clone());
        self.connections = self.plan.connections();
        for connection in &self.connections {
            self.telemetry.disconnected(connection.id);
        }
        self.unwatched.clear();
        for ((resource_type, name), watchers) in &self.watchers {
            for _ in &watchers.list {
                // A new machine has nothing cached, so it returns no event.
                let _ = self.machine.watch(watchers.authority, resource_type, name);
            }
        }
    }

    async fn run(&mut self) {
        // Index of the connection whose event caused the updates to deliver.
        let mut cause = None;
        loop {
            self.settle(cause.take());
            let timeout = self.machine.poll_timeout();
            let timeout = timeout.map(|time| at(self.epoch, time));
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_commands(command),
                    None => return,
                },
                (index, event) = next_event(&mut self.connections) => {
                    self.handle_source_event(index, event);
                    cause = Some(index);
                }
                () = sleep_until(timeout) => self.machine.handle_timeout(self.now()),
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn handle_commands(&mut self, first: Command) {
        let mut next = Some(first);
        // All queued commands are handled before requests are written, so that watches that start together share one
        // request (C-77).
        while let Some(command) = next {
            match command {
                Command::Watch(authority, entry) => self.watch(authority, entry),
                Command::Unwatch(entry) => self.unwatch(entry),
                Command::Register(parser) => {
                    self.plan.config.parsers.register(parser.clone());
                    self.machine.register(parser);
                }
                Command::Dump(sender) => drop(sender.send(dump(&self.machine, self.now()))),
            }
            next = self.commands.try_recv().ok();
        }
    }

    fn watch(&mut self, authority: AuthorityId, entry: WatchEntry) {
        let WatchEntry {
            resource_type,
            name,
            watcher,
        } = entry;
        let is_collection = selects_many(&name);
        self.collection_watchers += usize::from(is_collection);
        match self
            .watchers
            .entry((resource_type.clone(), Arc::clone(&name)))
        {
            Entry::Occupied(watchers) => watchers.into_mut().list.push(watcher.clone()),
            // Most names have one watcher: `vec!` allocates no room for more.
            Entry::Vacant(vacant) => {
                let list = vec![watcher.clone()];
                vacant.insert(Watchers { authority, list });
            }
        }
        // gRFC A88: a new watcher of a cached resource gets it at once, without the network (C-107).
        for event in self.machine.watch(authority, &resource_type, &name) {
            let is_member = is_collection && subject(&event).1 != &name;
            let Some(event) = self.watch_event(event) else {
                continue;
            };
            if is_member {
                watcher.queue.put_member(event);
            } else {
                watcher.queue.put(event.with_name(&watcher.spelled));
            }
        }
        let cached = self.machine.cached(&resource_type, &name);
        self.telemetry
            .resource(&resource_type, &name, cached.as_ref());
    }

    fn unwatch(&mut self, entry: WatchEntry) {
        let key = (entry.resource_type, entry.name);
        let Some(Watchers { list, .. }) = self.watchers.get_mut(&key) else {
            return;
        };
        let Some(index) = list
            .iter()
            .position(|watcher| watcher.is_same(&entry.watcher))
        else {
            return;
        };
        list.swap_remove(index);
        let is_last = list.is_empty();
        self.collection_watchers -= usize::from(selects_many(&key.1));
        self.machine.unwatch(&key.0, &key.1);
        if is_last {
            self.watchers.remove(&key);
            self.unwatched.push(key);
        }
    }

    /// Records that resources are not cached any more.
    fn record_unwatched(&mut self) {
        for (resource_type, name) in self.unwatched.drain(..) {
            if selects_many(&name) {
                // The members of the collection may be unwatched too.
                self.telemetry.remove_unwatched(&self.machine);
            } else {
                let cached = self.machine.cached(&resource_type, &name);
                self.telemetry
                    .resource(&resource_type, &name, cached.as_ref());
            }
        }
    }

    fn handle_source_event(&mut self, index: usize, event: SourceEvent) {
        let now = self.now();
        let (id, telemetry) = (self.connections[index].id, &mut self.telemetry);
        match event {
            SourceEvent::Opened(addresses) => {
                telemetry.opened(id, addresses);
                self.machine.handle_opened(id);
            }
            SourceEvent::Response(response) => {
                telemetry.response(id, &response);
                let updates = self.machine.handle_response(now, id, response);
                telemetry.updates(id, updates.as_ref());
            }
            SourceEvent::DeltaResponse(response) => {
                telemetry.response(id, &response);
                let updates = self.machine.handle_delta_response(now, id, response);
                telemetry.updates(id, updates.as_ref());
            }
            // HTTP 304: the poll counts as an answer, but nothing changes (C-267).
            SourceEvent::Unchanged => self.machine.handle_unchanged(id),
            SourceEvent::PollFailed(cause) => {
                telemetry.poll_failed(id, &cause);
                self.machine.handle_unanswered(id, &cause);
            }
            // An invalid file or answer is rejected like a response; the last valid content stays (C-264, C-268).
            SourceEvent::Invalid(reason) => {
                let updates = self.machine.handle_unreadable(now, id, &reason);
                telemetry.updates(id, updates.as_ref());
            }
            SourceEvent::Closed(end) => {
                let cause = end.to_string();
                telemetry.closed(id, &cause);
                self.machine.handle_closed(now, id, &cause, random());
            }
        }
    }

    /// Does everything that the state machine asks for.
    fn settle(&mut self, cause: Option<usize>) {
        while let Some((server, transmit)) = self.machine.poll_transmit(self.now()) {
            self.transmit(server, transmit);
        }
        self.record_unwatched();
        for connection in &mut self.connections {
            // A connection lives as long as a watch needs it, also during backoff (C-63).
            if self.machine.is_connected(connection.id).is_none() {
                connection.feed.give_up_retry();
            }
        }
        self.telemetry.servers(&self.machine);
        while let Some(event) = self.machine.poll_event() {
            self.deliver(event, cause);
        }
    }

    fn transmit(&mut self, server: ServerId, transmit: AdsTransmit) {
        let feed = &mut self.connections[server.index()].feed;
        match &transmit {
            AdsTransmit::Open if feed.has_connection() => self.telemetry.connecting(server),
            AdsTransmit::SotwRequest(request) => self.telemetry.request(server, request),
            AdsTransmit::DeltaRequest(request) => self.telemetry.request(server, request),
            AdsTransmit::Close => self.telemetry.disconnected(server),
            AdsTransmit::Open => {}
        }
        feed.transmit(transmit);
    }

    /// Delivers an event to the watchers of its resource, and of the collections that contain it.
    fn deliver(&mut self, event: ClientEvent, cause: Option<usize>) {
        let (resource_type, name) = subject(&event);
        let (resource_type, name) = (resource_type.clone(), Arc::clone(name));
        let cached = self.machine.cached(&resource_type, &name);
        self.telemetry.event(&event, cached.as_ref());
        self.telemetry
            .resource(&resource_type, &name, cached.as_ref());
        let Some(event) = self.watch_event(event) else {
            return;
        };
        let mut queues: Vec<&Arc<WatcherQueue>> = Vec::new();
        let watchers = self
            .watchers
            .get(&(resource_type.clone(), Arc::clone(&name)));
        for watcher in watchers.into_iter().flat_map(|watchers| &watchers.list) {
            watcher.queue.put(event.clone().with_name(&watcher.spelled));
            queues.push(&watcher.queue);
        }
        if self.collection_watchers > 0 && !selects_many(&name) {
            // xRFC TP1: an xdstp resource belongs to one collection; every resource belongs to `*`.
            let collections = collection_of(&name).into_iter();
            for collection in collections.chain([WILDCARD.to_owned()]) {
                let watchers = self
                    .watchers
                    .get(&(resource_type.clone(), collection.into()));
                for watcher in watchers.into_iter().flat_map(|watchers| &watchers.list) {
                    watcher.queue.put_member(event.clone());
                    queues.push(&watcher.queue);
                }
            }
        }
        if let Some(cause) = cause {
            let flow_control = &mut self.connections[cause].flow_control;
            for queue in queues {
                flow_control.wait_for(queue, self.plan.options.slow_watcher_timeout);
            }
        }
    }

    /// Converts an event for watchers; `None` if it is only for the log.
    fn watch_event(&self, event: ClientEvent) -> Option<WatchEvent> {
        Some(match event {
            ClientEvent::Changed {
                resource_type,
                name,
                resource,
            } => {
                let cached = self.machine.cached(&resource_type, &name);
                let held = cached.as_ref().and_then(|cached| cached.held);
                let ttl = cached.as_ref().and_then(|cached| cached.ttl);
                WatchEvent::Changed {
                    resource_type,
                    name,
                    resource: resource.map(|resource| RawResource::new(resource, held, ttl)),
                }
            }
            ClientEvent::Ambient {
                resource_type,
                name,
                error,
            } => WatchEvent::Ambient {
                resource_type,
                name,
                error,
            },
            // gRFC A53: the resource stays in use, so watchers are not notified.
            ClientEvent::DeletionIgnored { .. } | ClientEvent::DeletionOver { .. } => return None,
        })
    }
}

impl Connection {
    /// Waits for the next event, after the watchers have read the updates of the last one. Cancel-safe.
    async fn next(&mut self) -> SourceEvent {
        // ADS flow control, as in grpc-go: the ACK is already sent; only the next read waits (C-87).
        self.flow_control.ready().await;
        self.feed.next().await
    }
}

/// Returns the type and name of the resource that an event is about.
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
    }
    | ClientEvent::DeletionOver {
        resource_type,
        name,
        ..
    }) = event;
    (resource_type, name)
}

/// Waits for the next event of any connection, and returns it with the connection's index. Cancel-safe.
async fn next_event(connections: &mut [Connection]) -> (usize, SourceEvent) {
    let next = |connection| Box::pin(Connection::next(connection));
    let mut events: Vec<_> = connections.iter_mut().map(next).collect();
    poll_fn(|cx| {
        for (index, event) in events.iter_mut().enumerate() {
            if let Poll::Ready(event) = event.as_mut().poll(cx) {
                return Poll::Ready((index, event));
            }
        }
        Poll::Pending
    })
    .await
}

/// Closes the queues of all watchers, including those whose command is still queued, so that they get `None`.
impl Drop for ClientDriver {
    fn drop(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Watch(_, entry) = command {
                entry.watcher.queue.close();
            }
        }
        for watcher in self.watchers.values().flat_map(|watchers| &watchers.list) {
            watcher.queue.close();
        }
    }
}
