//! A session and a model client, connected by a link on a virtual clock.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use oxds_core::{
    session::{Config, Event, OverdueChange, Request, Scope, Session},
    snapshot::{Limits, Protocol, Snapshot},
    time::Instant,
};
use oxds_types::ResourceType;

use super::{
    World,
    model::{Model, Style, TYPES, is_invalid},
    stream::{Reply, name_of, node_with},
    world::{needs, secrets},
};

/// Server, client, and the messages in flight. Messages of one stream stay in order; streams of different types
/// overtake each other.
pub(crate) struct Link {
    pub(crate) world: World,
    pub(crate) client: Model,
    pub(crate) now: Instant,
    scope: Vec<Scope>,
    config: Arc<Config>,
    protocol: Protocol,
    /// One for an aggregated stream, else one per type. Empty: disconnected.
    pub(crate) wires: Vec<Wire>,
    /// The client does not read.
    pub(crate) stalled: bool,
    /// Whether the order guarantees of an aggregated stream are checked.
    checked: bool,
    /// Since when the client receives nothing: it does not read, or has a new stream.
    deaf_since: Option<Instant>,
    /// The client received nothing for so long that resources with a TTL may expire until then.
    excused_until: Instant,
}

/// TTLs of resources, and the client features for them.
const LONGEST_TTL: Duration = Duration::from_secs(60);
const SHORTEST_TTL: Duration = Duration::from_secs(10);
const FEATURES: [&str; 2] = [
    "xds.config.supports-resource-ttl",
    "xds.config.resource-in-sotw",
];

pub(crate) struct Wire {
    pub(crate) session: Session,
    to_server: VecDeque<(Instant, Request)>,
    to_client: VecDeque<(Instant, Reply, Arc<Snapshot>)>,
    delay: Duration,
    /// Types of which a response arrived on this stream.
    begun: Vec<ResourceType>,
}

impl Link {
    pub(crate) fn new(style: Style, protocol: Protocol, aggregated: bool, checked: bool) -> Self {
        let scope = if aggregated {
            vec![Scope::Aggregated]
        } else {
            TYPES.into_iter().map(Scope::Single).collect()
        };
        Self {
            world: World::empty(),
            client: Model::new(style, protocol),
            now: Instant::EPOCH,
            scope,
            config: Arc::new(Config::default()),
            protocol,
            wires: Vec::new(),
            stalled: false,
            checked,
            deaf_since: None,
            excused_until: Instant::EPOCH,
        }
    }

    /// Sets the message limit. Call it before anything else.
    pub(crate) fn split_above(&mut self, message_bytes: usize) {
        self.world = World::with_limits(Limits {
            message_bytes,
            ..Limits::default()
        });
    }

    pub(crate) fn disconnect(&mut self) {
        self.wires.clear();
    }

    /// Connects with these one-way delays in milliseconds.
    pub(crate) fn connect(&mut self, delays: &[u64]) {
        let delays = delays.iter().cycle().map(|&ms| Duration::from_millis(ms));
        let wires = self.scope.iter().zip(delays).map(|(scope, delay)| Wire {
            session: Session::new(self.protocol, scope.clone(), Arc::clone(&self.config)),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            delay,
            begun: Vec::new(),
        });
        self.wires = wires.collect();
        self.deaf_since.get_or_insert(self.now);
        let requests = self.client.connect();
        self.send(requests);
        self.serve();
    }

    pub(crate) fn send(&mut self, requests: Vec<Request>) {
        if self.wires.is_empty() {
            return;
        }
        for mut request in requests {
            *request.node_mut() = node_with(&FEATURES);
            let type_url = match &request {
                Request::Sotw(request) => &request.type_url,
                Request::Delta(request) => &request.type_url,
            };
            let (resource_type, _) = ResourceType::from_type_url(type_url).unwrap();
            let at = self
                .scope
                .iter()
                .position(|scope| *scope == Scope::Single(resource_type.clone()));
            let wire = &mut self.wires[at.unwrap_or(0)];
            wire.to_server.push_back((self.now + wire.delay, request));
        }
    }

    /// Polls the sessions as a driver does after each event.
    pub(crate) fn serve(&mut self) {
        for wire in &mut self.wires {
            let mut count = 0;
            while let Some(transmit) = wire.session.poll_transmit(self.now, &self.world.snapshot) {
                let reply = Reply::decode(self.protocol, &transmit);
                let snapshot = Arc::clone(&self.world.snapshot);
                wire.to_client
                    .push_back((self.now + wire.delay, reply, snapshot));
                count += 1;
                assert!(count < 100, "the session sends without end");
            }
            while let Some(event) = wire.session.poll_event() {
                // A secret that does not exist never arrives; removals wait with the routes that wait for it.
                let is_missing = |held: &OverdueChange| match held {
                    OverdueChange::Removal(_) => lacks_a_secret(&self.world.snapshot),
                    OverdueChange::Update { waits_for, .. } if waits_for.missing => {
                        let name = waits_for.name.as_deref().unwrap();
                        let served = self.world.snapshot.get(&waits_for.resource_type, name);
                        waits_for.resource_type == ResourceType::SECRET && served.is_none()
                    }
                    _ => false,
                };
                let late = matches!(&event, Event::HeldTooLong { held, .. } if !is_missing(held));
                assert!(
                    !late || !self.checked,
                    "{event:?}, though the client answers at once {:#?}",
                    wire.session
                );
            }
        }
    }

    /// Lets time pass; messages and timers are handled when they are due.
    pub(crate) fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        self.listen();
        while let Some(next) = self.next_due().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.listen();
            self.step();
        }
        self.now = end;
        self.listen();
    }

    /// Delivers the messages in flight.
    pub(crate) fn settle(&mut self) {
        let under_way = |wire: &Wire| !wire.to_server.is_empty() || !wire.to_client.is_empty();
        while self.wires.iter().any(under_way) {
            self.pass(Duration::from_millis(1));
        }
    }

    /// Records whether the client receives messages.
    fn listen(&mut self) {
        if self.stalled || self.wires.is_empty() {
            self.deaf_since.get_or_insert(self.now);
        }
        // A heartbeat is due after half of the TTL, and waits for an answer or two.
        let is_long =
            |since| self.now.saturating_since(since) + Duration::from_secs(1) >= SHORTEST_TTL / 2;
        if self.deaf_since.is_some_and(is_long) {
            self.excused_until = self.now + LONGEST_TTL;
        }
    }

    /// Expires resources at the client that were not confirmed in time.
    fn end_what_has_a_ttl(&mut self) {
        let ended = self.client.end(self.now);
        if ended.is_empty() {
            return;
        }
        for (resource_type, text) in ended {
            let served = self.world.snapshot.get(&resource_type, name_of(&text));
            let is_served = served.is_some_and(|served| text_of(&served.value()) == text);
            assert!(
                !is_served || self.now <= self.excused_until,
                "{text} expires at the client, and is served"
            );
        }
        if !self.wires.is_empty() {
            let requests = self.client.ask();
            self.send(requests);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let due = |wire: &Wire| {
            let arrival = wire
                .to_client
                .front()
                .map(|(at, ..)| *at)
                .filter(|_| !self.stalled);
            let request = wire.to_server.front().map(|(at, _)| *at);
            [arrival, request, wire.session.poll_timeout()]
                .into_iter()
                .flatten()
                .min()
        };
        let wires = self.wires.iter().filter_map(due);
        wires.chain(self.client.next_end()).min()
    }

    fn step(&mut self) {
        let mut answers = Vec::new();
        for wire in &mut self.wires {
            if wire.session.poll_timeout().is_some_and(|at| at <= self.now) {
                wire.session.handle_timeout(self.now);
                let again = wire.session.poll_timeout().is_some_and(|at| at <= self.now);
                assert!(!again, "a timer that fires again and again");
            }
            while wire
                .to_server
                .front()
                .is_some_and(|(at, _)| *at <= self.now)
            {
                let (_, request) = wire.to_server.pop_front().unwrap();
                wire.session.handle_request(self.now, request).unwrap();
            }
            if !self.stalled
                && wire
                    .to_client
                    .front()
                    .is_some_and(|(at, ..)| *at <= self.now)
            {
                let (_, reply, snapshot) = wire.to_client.pop_front().unwrap();
                check_nothing_is_lost(&self.client, &reply, &snapshot);
                if self.checked {
                    check(&self.client, &reply, &snapshot, &wire.begun);
                }
                answers.extend(self.client.receive(self.now, &reply));
                self.deaf_since = None;
                wire.begun
                    .push(ResourceType::from_type_url(&reply.type_url).unwrap().0);
            }
        }
        self.send(answers);
        self.end_what_has_a_ttl();
        self.serve();
    }

    /// Checks that the client has everything that the server has for it, and that the session keeps no more than
    /// needed.
    pub(crate) fn check_converged(&self) {
        let client = &self.client;
        for resource_type in TYPES {
            let wires = self.wires.iter();
            let mut rejected = wires.flat_map(|wire| wire.session.nacked_resources(&resource_type));
            if client.is_stuck(&resource_type) && rejected.next().is_some() {
                continue;
            }
            let names = client.names(&resource_type);
            let there_is = self.world.snapshot.of_type(&resource_type).collection();
            let wanted = |name: &str| client.is_wildcard(&resource_type) || names.contains(name);
            for resource in there_is.iter().filter(|resource| wanted(resource.name())) {
                let text = text_of(&resource.value());
                // Of a resource that it NACKs, the client has the content that it accepted before, or nothing.
                let is_exempt = client.is_unreported(&resource_type, resource.name())
                    || client.has_ended(&resource_type, resource.name());
                if !is_invalid(&text) && !is_exempt {
                    let has = client.texts(&resource_type).get(&**resource.name());
                    assert_eq!(
                        has,
                        Some(&text),
                        "{resource_type}, of {:?}",
                        client.texts(&resource_type)
                    );
                }
            }
            let can_remove =
                self.protocol == Protocol::Delta || resource_type.all_resources_required_in_sotw();
            let is_known =
                |name: &&String| can_remove && !client.is_unreported(&resource_type, name);
            for name in client.texts(&resource_type).keys().filter(is_known) {
                assert!(
                    there_is.get(name).is_some(),
                    "{resource_type} {name} was removed, and the client has it"
                );
            }
        }
        self.check_warm();
        self.check_sessions();
    }

    /// Checks that no cluster waits for an assignment that exists.
    fn check_warm(&self) {
        let client = &self.client;
        // Streams of one type each are independent.
        let warming = client
            .warming
            .iter()
            .filter(|_| self.scope == [Scope::Aggregated]);
        for cluster in warming {
            for needed in needs(&client.texts(&ResourceType::CLUSTER)[cluster]) {
                let assignment = self.world.snapshot.get(&ResourceType::ENDPOINT, needed);
                let good = assignment.is_some_and(|a| !is_invalid(&text_of(&a.value())));
                assert!(!good, "{cluster} warms without end, though {needed} exists");
            }
        }
    }

    /// Checks that the sessions know that, and keep no more than needed.
    fn check_sessions(&self) {
        let resource_types = TYPES.map(|resource_type| self.world.snapshot.of_type(&resource_type));
        let mut all = resource_types.iter().flat_map(|of| of.collection().iter());
        let is_mortal = all.any(|resource| resource.ttl().is_some());
        for wire in &self.wires {
            let mut resource_types = TYPES.iter();
            let refused = resource_types.any(|resource_type| {
                wire.session
                    .nacked_resources(resource_type)
                    .next()
                    .is_some()
            });
            // A copy in use after a NACK may have a TTL.
            let is_mortal = is_mortal || refused;
            assert!(
                is_mortal || wire.session.poll_timeout().is_none(),
                "a timer without a reason"
            );
            for status in wire.session.status() {
                assert_eq!(status.waiting_since, None, "{status:?}");
            }
            assert!(refused || wire.session.is_in_sync(&self.world.snapshot));
            let rejections: usize = TYPES
                .iter()
                .map(|resource_type| wire.session.nacked_resources(resource_type).count())
                .sum();
            let names: usize = wire
                .session
                .status()
                .iter()
                .map(|status| status.names)
                .sum();
            // Two TTLs of each type.
            let heartbeats = if is_mortal { 2 * TYPES.len() } else { 0 };
            assert!(
                wire.session.footprint() <= names + rejections + heartbeats,
                "the session keeps too many exceptions"
            );
        }
    }
}

/// Checks that a resource which the client ACKed is removed only if it is gone at the server, and not because of a
/// NACK.
fn check_nothing_is_lost(client: &Model, reply: &Reply, sent_from: &Snapshot) {
    let (resource_type, _) = ResourceType::from_type_url(&reply.type_url).unwrap();
    let complete = client.is_sotw() && resource_type.all_resources_required_in_sotw();
    let told = |name: &str| reply.resources.iter().any(|text| name_of(text) == name);
    let acknowledged = client.acknowledged(&resource_type).iter();
    for name in acknowledged.filter(|name| client.asks_steadily(&resource_type, name)) {
        let removed = reply.removed.contains(name) || complete && !told(name);
        assert!(
            !removed || sent_from.get(&resource_type, name).is_none(),
            "{name} is removed but served: {reply:?}"
        );
    }
}

/// Checks that a route arrives after the secrets of this cluster, unless the client uses a route to it already, or does
/// not request them, since the cluster has no assignment.
fn check_secrets(client: &Model, reply: &Reply, sent_from: &Snapshot, cluster: &str) {
    let there_is = sent_from.get(&ResourceType::CLUSTER, cluster);
    let text = there_is.map(|cluster| text_of(&cluster.value()));
    let is_served = |name: &str| sent_from.get(&ResourceType::ENDPOINT, name).is_some();
    let text = text.filter(|text| needs(text).all(is_served));
    for secret in text.iter().flat_map(|text| secrets(text)) {
        let there_is = sent_from.get(&ResourceType::SECRET, secret).is_some();
        let has = client.texts(&ResourceType::SECRET).contains_key(secret);
        let mut routes = client.texts(&ResourceType::ROUTE).values();
        let is_used = routes.any(|text| needs(text).any(|needed| needed == cluster));
        assert!(
            has || !there_is || is_used || client.ready.contains(cluster),
            "{reply:?} before secret {secret}"
        );
    }
}

/// Checks that no secret is removed to which a copy refers that will change or go.
fn check_removed_secrets(client: &Model, reply: &Reply, sent_from: &Snapshot) {
    for user_type in [ResourceType::CLUSTER, ResourceType::LISTENER] {
        for (user, text) in client.texts(&user_type) {
            let served = sent_from.get(&user_type, user);
            let stays = served.is_some_and(|served| text_of(&served.value()) == *text);
            // The absence of a secret that the client does not have removes nothing.
            let has = |name: &&str| client.texts(&ResourceType::SECRET).contains_key(*name);
            for secret in secrets(text).filter(has) {
                assert!(
                    stays || !reply.removed.iter().any(|name| name == secret),
                    "{secret} is removed while {text} needs it"
                );
            }
        }
    }
}

/// Checks the order guarantees of an aggregated stream for a response that arrives (S-51, S-52): no resource arrives
/// before its dependencies, and none is removed while another refers to it.
fn check(client: &Model, reply: &Reply, sent_from: &Snapshot, begun: &[ResourceType]) {
    let (resource_type, _) = ResourceType::from_type_url(&reply.type_url).unwrap();
    let clusters = client.texts(&ResourceType::CLUSTER);
    if resource_type == ResourceType::SECRET {
        check_removed_secrets(client, reply, sent_from);
    }
    if resource_type == ResourceType::ROUTE && client.is_wildcard(&ResourceType::CLUSTER) {
        for needed in reply.resources.iter().flat_map(|text| needs(text)) {
            let Some(cluster) = sent_from.get(&ResourceType::CLUSTER, needed) else {
                continue;
            };
            assert!(
                clusters.contains_key(needed),
                "{reply:?} before cluster {needed}"
            );
            for assignment in needs(&text_of(&cluster.value())) {
                let there_is = sent_from.get(&ResourceType::ENDPOINT, assignment).is_some();
                let has = client
                    .texts(&ResourceType::ENDPOINT)
                    .contains_key(assignment);
                assert!(
                    has || !there_is || client.ready.contains(needed),
                    "{reply:?} before assignment {assignment}"
                );
            }
            check_secrets(client, reply, sent_from, needed);
        }
    }
    // SotW, on a new stream: which resources the client has is known if the version that it reports is.
    let served = sent_from.of_type(&ResourceType::CLUSTER);
    let version = client.version(&ResourceType::CLUSTER);
    let is_known = !client.is_sotw()
        || begun.contains(&ResourceType::CLUSTER)
        || served.at_version(version).is_some();
    if resource_type == ResourceType::CLUSTER && is_known {
        for (route, text) in client.texts(&ResourceType::ROUTE) {
            let stays = match sent_from.get(&ResourceType::ROUTE, route) {
                Some(there_is) => text_of(&there_is.value()) == *text,
                // SotW cannot report that the route is gone.
                None => client.is_sotw(),
            };
            for needed in needs(text).filter(|needed| clusters.contains_key(*needed)) {
                let present = reply.resources.iter().any(|text| name_of(text) == needed);
                let removed = if client.is_sotw() {
                    !present
                } else {
                    reply.removed.iter().any(|name| name == needed)
                };
                assert!(
                    stays || !removed,
                    "{needed} is removed while {text} needs it"
                );
            }
        }
    }
}

/// Whether a cluster refers to a secret that does not exist.
fn lacks_a_secret(served: &Snapshot) -> bool {
    let clusters = served.of_type(&ResourceType::CLUSTER).collection();
    clusters.iter().any(|cluster| {
        let text = text_of(&cluster.value());
        secrets(&text).any(|name| served.get(&ResourceType::SECRET, name).is_none())
    })
}

fn text_of(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}
