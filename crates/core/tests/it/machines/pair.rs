//! The two machines, and the messages in flight between them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use envoy_types::pb::{
    envoy::config::{
        core::v3::Locality,
        endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints},
    },
    google::protobuf::UInt32Value,
};
use oxds_core::{
    ads::{self, AdsTransmit, CacheState, CacheStatus},
    session::{Config, Request, Scope, Session},
    snapshot::{ChangeSet, Protocol, Resource, Snapshot},
    time::Instant,
};
use oxds_types::{
    ApiVersion, ResourceType,
    discovery::{Any, DeltaDiscoveryResponse, DiscoveryResponse, Node},
    reference::references,
};
use prost::Message;

use crate::support::resources::{any, bad_cluster, cluster};

use super::WHOLE;

const DELAY: Duration = Duration::from_millis(20);

/// TTL of resources that have one. The server confirms them after half of it.
const TTL: Duration = Duration::from_secs(60);

/// Content 2 has a TTL.
fn ttl(content: usize) -> Option<Duration> {
    (content == 2).then_some(TTL)
}

/// Response in flight.
enum Response {
    Sotw(DiscoveryResponse),
    Delta(DeltaDiscoveryResponse),
}

pub(super) struct Pair {
    now: Instant,
    snapshot: Arc<Snapshot>,
    client: ads::Client,
    watched: BTreeMap<(ResourceType, String), usize>,
    /// Present while a stream is open.
    session: Option<Session>,
    to_server: VecDeque<(Instant, Request)>,
    to_client: VecDeque<(Instant, Response)>,
    protocol: Protocol,
    pub(super) stalled: bool,
    /// Whether the client has ever ACKed a response of clusters: it reports the version on the next stream.
    accepted: bool,
    /// SotW: names that the client had at the end of a stream without an ACK. It does not report them.
    unreported: BTreeSet<String>,
    /// Since when the client receives nothing.
    deaf_since: Option<Instant>,
    /// Whether it received nothing for so long that resources with a TTL may have expired.
    starved: bool,
    /// Whether there was an earlier stream. Copies from it that the client uses after a NACK are unknown to the
    /// server, which cannot confirm them.
    returned: bool,
    /// State of the random number generator.
    random: u64,
}

fn resource_type(is_cluster: bool) -> ResourceType {
    if is_cluster {
        ResourceType::CLUSTER
    } else {
        ResourceType::ENDPOINT
    }
}

fn name(is_cluster: bool, number: usize) -> String {
    match (is_cluster, number) {
        (true, WHOLE) => "*".to_owned(),
        (true, number) => format!("c{number}"),
        (false, WHOLE) => "xdstp://a/T/e/*".to_owned(),
        (false, number) => format!("xdstp://a/T/e/{number}"),
    }
}

/// Content 3 of a cluster breaks a rule.
fn content(is_cluster: bool, number: usize, content: usize) -> Any {
    let name = name(is_cluster, number);
    match (is_cluster, content) {
        (true, 3) => bad_cluster(&name),
        (true, n) => cluster(&name, &self::name(false, n)),
        (false, n) => {
            let region = format!("region-{n}");
            let locality = LocalityLbEndpoints {
                locality: Some(Locality {
                    region,
                    ..Locality::default()
                }),
                load_balancing_weight: Some(UInt32Value { value: 1 }),
                ..LocalityLbEndpoints::default()
            };
            let assignment = ClusterLoadAssignment {
                cluster_name: name,
                endpoints: vec![locality],
                ..ClusterLoadAssignment::default()
            };
            any(&ResourceType::ENDPOINT, &assignment)
        }
    }
}

impl Pair {
    pub(super) fn new(protocol: Protocol, version: ApiVersion) -> Self {
        let node = Node {
            id: "node".to_owned(),
            client_features: [
                "xds.config.supports-resource-ttl",
                "xds.config.resource-in-sotw",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..Node::default()
        };
        let mut server = ads::Server::new("cp:18000");
        server.protocol = protocol;
        server.version = version;
        let mut config = ads::ClientConfig::with_server(server, node);
        config.resource_ttl = true;
        Self {
            protocol,
            now: Instant::EPOCH,
            snapshot: Snapshot::unloaded().apply(ChangeSet::default()).0,
            client: ads::Client::new(config),
            watched: BTreeMap::new(),
            session: None,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            stalled: false,
            accepted: false,
            unreported: BTreeSet::new(),
            deaf_since: None,
            starved: false,
            returned: false,
            random: 1,
        }
    }

    pub(super) fn change(&mut self, is_cluster: bool, number: usize, new: Option<usize>) {
        let (resource_type, name) = (resource_type(is_cluster), name(is_cluster, number));
        let mut changes = ChangeSet::default();
        match new {
            None => changes.removals.push((resource_type, name.into())),
            Some(new) => {
                let value = content(is_cluster, number, new).value;
                let needed = references(&resource_type, &value);
                let mut resource =
                    Resource::new(resource_type, name, &value).with_references(needed);
                if let Some(ttl) = ttl(new) {
                    resource = resource.with_ttl(ttl);
                }
                changes.upserts.push(Arc::new(resource));
            }
        }
        self.snapshot = self.snapshot.apply(changes).0;
    }

    pub(super) fn watch(&mut self, is_cluster: bool, number: usize) {
        if number == WHOLE && self.protocol == Protocol::Sotw {
            return;
        }
        let (resource_type, name) = (resource_type(is_cluster), name(is_cluster, number));
        self.client.watch(
            ads::AuthorityId::default(),
            &resource_type,
            &Arc::from(name.as_str()),
        );
        *self.watched.entry((resource_type, name)).or_default() += 1;
    }

    pub(super) fn is_watched(&self, is_cluster: bool, number: usize) -> bool {
        let key = (resource_type(is_cluster), name(is_cluster, number));
        self.watched.contains_key(&key)
    }

    pub(super) fn unwatch(&mut self, is_cluster: bool, number: usize) {
        let key = (resource_type(is_cluster), name(is_cluster, number));
        if let Some(watchers) = self.watched.get_mut(&key) {
            self.client.unwatch(&key.0, &key.1);
            *watchers -= 1;
            self.watched.retain(|_, watchers| *watchers > 0);
        }
    }

    pub(super) fn close(&mut self, cause: &str) {
        if self.session.take().is_some() {
            self.returned = true;
            let names = self.watched.keys().map(|(_, name)| name);
            let had = names.filter(|name| {
                let cached = self.client.cached(&ResourceType::CLUSTER, name);
                !self.accepted && cached.is_some_and(|cached| cached.held.is_some())
            });
            self.unreported.extend(had.cloned());
            self.to_server.clear();
            self.to_client.clear();
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.client
                .handle_closed(self.now, ads::ServerId::default(), cause, self.random);
        }
    }

    /// Polls both machines as their drivers do.
    pub(super) fn drive(&mut self) {
        while let Some((_, transmit)) = self.client.poll_transmit(self.now) {
            match transmit {
                AdsTransmit::Open => {
                    let config = Arc::new(Config::default());
                    self.session = Some(Session::new(self.protocol, Scope::Aggregated, config));
                    self.client.handle_opened(ads::ServerId::default());
                }
                AdsTransmit::SotwRequest(request) => {
                    let asked = ResourceType::from_type_url(&request.type_url);
                    let is_cluster = asked
                        .is_some_and(|(resource_type, _)| resource_type == ResourceType::CLUSTER);
                    self.accepted |= is_cluster && !request.version_info.is_empty();
                    self.to_server
                        .push_back((self.now + DELAY, Request::Sotw(*request)));
                }
                AdsTransmit::DeltaRequest(request) => {
                    self.to_server
                        .push_back((self.now + DELAY, Request::Delta(*request)));
                }
                AdsTransmit::Close => {
                    self.session = None;
                    self.to_server.clear();
                    self.to_client.clear();
                }
            }
        }
        while self.client.poll_event().is_some() {}
        if let Some(session) = &mut self.session {
            while let Some(transmit) = session.poll_transmit(self.now, &self.snapshot) {
                let message = transmit.frame.message();
                let response = match self.protocol {
                    Protocol::Sotw => Response::Sotw(DiscoveryResponse::decode(message).unwrap()),
                    Protocol::Delta => {
                        Response::Delta(DeltaDiscoveryResponse::decode(message).unwrap())
                    }
                };
                self.to_client.push_back((self.now + DELAY, response));
            }
            while session.poll_event().is_some() {}
        }
    }

    pub(super) fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        self.listen();
        self.drive();
        while let Some(next) = self.next_due().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.listen();
            self.step();
        }
        self.now = end;
        self.listen();
    }

    /// Records whether the client receives messages.
    fn listen(&mut self) {
        if self.session.is_some() && !self.stalled {
            self.deaf_since = None;
            return;
        }
        let since = *self.deaf_since.get_or_insert(self.now);
        // A heartbeat may have been about to be sent.
        self.starved |= self.now.saturating_since(since) + Duration::from_secs(1) >= TTL / 2;
    }

    fn next_due(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::poll_timeout);
        let arrival = self
            .to_client
            .front()
            .map(|(at, _)| *at)
            .filter(|_| !self.stalled);
        let request = self.to_server.front().map(|(at, _)| *at);
        [session, arrival, request, self.client.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn step(&mut self) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        if due(self.client.poll_timeout()) {
            self.client.handle_timeout(self.now);
        }
        if let Some(session) = &mut self.session {
            session.handle_timeout(self.now);
        }
        while self
            .to_server
            .front()
            .is_some_and(|(at, _)| *at <= self.now)
        {
            let (_, request) = self.to_server.pop_front().unwrap();
            let session = self.session.as_mut().unwrap();
            session.handle_request(self.now, request).unwrap();
        }
        if !self.stalled
            && self
                .to_client
                .front()
                .is_some_and(|(at, _)| *at <= self.now)
        {
            let (_, response) = self.to_client.pop_front().unwrap();
            let server = ads::ServerId::default();
            match response {
                Response::Sotw(response) => {
                    self.client.handle_response(self.now, server, response);
                }
                Response::Delta(response) => {
                    self.client
                        .handle_delta_response(self.now, server, response);
                }
            }
        }
        self.drive();
    }

    fn tells_absence(&self, resource_type: &ResourceType) -> bool {
        self.protocol == Protocol::Delta || resource_type.all_resources_required_in_sotw()
    }

    /// Names that the client watches, by name or through a wildcard.
    fn expected(&self) -> BTreeSet<(ResourceType, String)> {
        let is_whole = |name: &str| name.ends_with('*');
        let watched = self.watched.keys();
        let mut expected: BTreeSet<_> = watched
            .filter(|(_, name)| !is_whole(name))
            .cloned()
            .collect();
        for (resource_type, _) in self.watched.keys().filter(|(_, name)| is_whole(name)) {
            let there_is = self.snapshot.of_type(resource_type).collection().iter();
            expected.extend(there_is.map(|one| (resource_type.clone(), one.name().to_string())));
        }
        expected
    }

    pub(super) fn check(&self) {
        self.check_removals();
        for (resource_type, name) in &self.expected() {
            match self.client.cached(resource_type, name) {
                Some(cached) => self.check_cached(resource_type, name, &cached),
                None => self.check_missing(resource_type, name),
            }
        }
        self.check_idle();
    }

    /// The client keeps no resource that is gone, unless the protocol cannot report the removal.
    fn check_removals(&self) {
        let held = self
            .client
            .resources()
            .filter(|(.., cached)| cached.held.is_some());
        for (resource_type, name, _) in held {
            let key = (resource_type.clone(), name.to_string());
            let may_be_gone = self.watched.contains_key(&key) && !self.tells_absence(resource_type);
            assert!(
                may_be_gone || self.snapshot.get(resource_type, name).is_some(),
                "{name} is gone, and the client still has it"
            );
        }
    }

    /// Through a wildcard, the client has no state of a resource that was only ever NACKed, or that expired.
    fn check_missing(&self, resource_type: &ResourceType, name: &str) {
        let there_is = self.snapshot.get(resource_type, name).expect("a member");
        let ended = self.starved && there_is.ttl().is_some();
        assert!(ended || there_is.value() == bad_cluster(name).value);
        let key = (resource_type.clone(), name.to_owned());
        assert!(!self.watched.contains_key(&key));
    }

    fn check_cached(&self, resource_type: &ResourceType, name: &str, cached: &CacheStatus<'_>) {
        let held = cached.held.map(|held| held.resource.value());
        match self.snapshot.get(resource_type, name) {
            Some(resource)
                if *resource_type == ResourceType::CLUSTER
                    && resource.value() == bad_cluster(name).value =>
            {
                // A SotW response that was sent again for another resource confirms the copy in use.
                assert!(
                    cached.state == CacheState::Nacked
                        || held.is_some()
                        || self.unreported.contains(name)
                        || self.starved
                        || self.returned,
                    "{name} {:?} {:?}",
                    self.protocol,
                    cached.state
                );
                assert_ne!(held, Some(&*resource.value()), "{name}");
                let session = self.session.as_ref().unwrap();
                assert!(
                    session
                        .nacked_resources(resource_type)
                        .any(|(nacked, _)| **nacked == *name)
                );
            }
            Some(resource) if self.starved && resource.ttl().is_some() => {
                let ended = cached.state == CacheState::DoesNotExist;
                assert!(ended || held == Some(&*resource.value()), "{name}");
            }
            Some(resource) => {
                assert_eq!(
                    (cached.state, held),
                    (CacheState::Acked, Some(&*resource.value()))
                );
            }
            // A resource that was only ever NACKed was never there, so it cannot be removed (C-103).
            None if self.tells_absence(resource_type) && cached.state == CacheState::Nacked => {
                assert_eq!(held, None, "{name}");
            }
            None if self.tells_absence(resource_type) => {
                assert_eq!(
                    (cached.state, held),
                    (CacheState::DoesNotExist, None),
                    "{name}"
                );
            }
            // SotW cannot report that an assignment is gone.
            None => assert_ne!(cached.state, CacheState::Requested, "{name}"),
        }
    }

    /// Without TTLs, a server that is in sync has no timer.
    fn check_idle(&self) {
        let resource_types = [ResourceType::CLUSTER, ResourceType::ENDPOINT]
            .map(|resource_type| self.snapshot.of_type(&resource_type));
        let mut all = resource_types.iter().flat_map(|of| of.collection().iter());
        let has_ttl = all.any(|resource| resource.ttl().is_some());
        let session = self.session.as_ref();
        // A NACKed resource may still be in use in a version that has a TTL.
        let is_nacked = |session: &&Session| {
            session
                .nacked_resources(&ResourceType::CLUSTER)
                .next()
                .is_some()
        };
        let has_ttl = has_ttl || session.as_ref().is_some_and(is_nacked);
        let session = session.filter(|_| !self.watched.is_empty() && !has_ttl);
        assert!(session.is_none_or(|session| session.poll_timeout().is_none()));
    }
}
