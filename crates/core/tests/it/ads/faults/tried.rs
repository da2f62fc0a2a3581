//! The client under test: plays operations, and checks its invariants after each step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_core::ads::{
    AdsTransmit, AuthorityId, Client, ClientConfig, ClientEvent, Protocol, Server, ServerId,
    WatchError,
};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{
    DeltaDiscoveryResponse, DiscoveryResponse, Node, ParametrizedName, Resource as Wrapper,
    ResourceError, Status,
};

use super::MILLISECOND;
use super::op::{Body, NAMES, Op, any_of};
use crate::ads::response;

/// The client, and the state that it must never lose.
pub(super) struct Tried {
    client: Client,
    now: Instant,
    /// The latest time so far: the clock may have gone back since.
    latest: Instant,
    protocol: Protocol,
    watched: [usize; NAMES.len()],
    /// By server: whether it was told to connect, and is not connected or given up yet.
    pub(super) opening: [bool; 2],
    open: [bool; 2],
    /// Time of the last connect, by server.
    begun: [Instant; 2],
    /// Number of connects, by server.
    pub(super) calls: [usize; 2],
    /// Start of the attempt or stream that failed last, until the next connect.
    failed: [Option<Instant>; 2],
    last: Option<Vec<(usize, Body)>>,
    /// The last known resource of each name.
    pub(super) held: BTreeMap<&'static str, Bytes>,
}

impl Tried {
    pub(super) fn new(protocol: Protocol) -> Self {
        let mut config = ClientConfig::new(Node {
            id: "node-1".to_owned(),
            ..Node::default()
        });
        let servers = ["first:1", "second:2"].map(|uri| {
            config.add_server(Server {
                protocol,
                ..Server::new(uri)
            })
        });
        config.add_authority(servers.to_vec());
        Self {
            client: Client::new(config),
            now: Instant::EPOCH + Duration::from_secs(10),
            latest: Instant::EPOCH + Duration::from_secs(10),
            protocol,
            watched: [0; NAMES.len()],
            opening: [false; 2],
            open: [false; 2],
            begun: [Instant::default(); 2],
            calls: [0; 2],
            failed: [None; 2],
            last: None,
            held: BTreeMap::new(),
        }
    }

    fn id(index: usize) -> ServerId {
        // Servers are numbered in the order in which they were added.
        let mut config = ClientConfig::new(Node::default());
        let ids = [(); 2].map(|()| config.add_server(Server::new("")));
        ids[index]
    }

    pub(super) fn play(&mut self, op: &Op) {
        let mut may_drop = false;
        match op {
            Op::Watch(name) => {
                self.watched[*name] += 1;
                let name = Arc::from(NAMES[*name]);
                let told = self
                    .client
                    .watch(AuthorityId::default(), &ResourceType::CLUSTER, &name);
                told.iter().for_each(explained);
            }
            Op::Unwatch(name) => {
                if self.watched[*name] > 0 {
                    self.watched[*name] -= 1;
                    may_drop = true;
                    self.client.unwatch(&ResourceType::CLUSTER, NAMES[*name]);
                }
            }
            Op::Rewatch(name) => self.rewatch(*name),
            Op::Opened(server) => {
                if std::mem::take(&mut self.opening[*server]) {
                    self.open[*server] = true;
                    self.client.handle_opened(Self::id(*server));
                }
            }
            Op::Closed(server) => self.close(*server),
            Op::Responds(server, of) => {
                // Deleted: names absent from a SotW response, and names removed by a delta response.
                may_drop = true;
                self.last = Some(of.clone());
                self.respond(*server, of);
            }
            Op::Repeats(server) => {
                may_drop = true;
                if let Some(of) = self.last.clone() {
                    self.respond(*server, &of);
                }
            }
            Op::Removes(server, name) => {
                may_drop = true;
                let response = DeltaDiscoveryResponse {
                    removed_resources: vec![NAMES[*name].to_owned()],
                    type_url: ResourceType::CLUSTER.type_url().to_owned(),
                    ..DeltaDiscoveryResponse::default()
                };
                let id = Self::id(*server);
                let _ = self.client.handle_delta_response(self.now, id, response);
            }
            Op::Reports(server, name, code) => self.report(*server, NAMES[*name], *code),
            Op::OfUnknownType(server) => {
                let response = DiscoveryResponse {
                    type_url: "type.googleapis.com/some.Thing".to_owned(),
                    ..DiscoveryResponse::default()
                };
                let _ = self
                    .client
                    .handle_response(self.now, Self::id(*server), response);
            }
            Op::Jumps(by) => {
                self.now += *by;
                self.latest = self.latest.max(self.now);
                self.client.handle_timeout(self.now);
                let next = self.client.poll_timeout();
                assert!(next.is_none_or(|at| at > self.now), "a timer that spins");
            }
            Op::Falls(by) => {
                self.now = Instant::from_epoch(self.now.since_epoch().saturating_sub(*by));
            }
        }
        self.settle();
        self.compare(may_drop, op);
    }

    /// Until a request is written, the resource stays.
    fn rewatch(&mut self, name: usize) {
        let watchers = 0..self.watched[name];
        for _ in watchers.clone() {
            self.client.unwatch(&ResourceType::CLUSTER, NAMES[name]);
        }
        let name = Arc::from(NAMES[name]);
        for _ in watchers {
            let authority = AuthorityId::default();
            let cached = self.client.watch(authority, &ResourceType::CLUSTER, &name);
            cached.iter().for_each(explained);
        }
    }

    fn close(&mut self, server: usize) {
        if std::mem::take(&mut self.opening[server]) | std::mem::take(&mut self.open[server]) {
            self.failed[server] = Some(self.begun[server].min(self.now));
            let (now, cause) = (self.now, "the cable was cut");
            self.client.handle_closed(now, Self::id(server), cause, 0);
        }
    }

    fn respond(&mut self, server: usize, of: &[(usize, Body)]) {
        let id = Self::id(server);
        if self.protocol == Protocol::Sotw {
            let resources = of.iter().map(|(name, body)| any_of(NAMES[*name], *body));
            let response = response(&ResourceType::CLUSTER, "v", "n", resources.collect());
            let _ = self.client.handle_response(self.now, id, response);
            return;
        }
        let wrapped = of.iter().map(|(name, body)| Wrapper {
            name: NAMES[*name].to_owned(),
            version: format!("{body:?}"),
            resource: Some(any_of(NAMES[*name], *body)),
            ..Wrapper::default()
        });
        let response = DeltaDiscoveryResponse {
            resources: wrapped.collect(),
            type_url: ResourceType::CLUSTER.type_url().to_owned(),
            nonce: "n".to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let _ = self.client.handle_delta_response(self.now, id, response);
    }

    fn report(&mut self, server: usize, name: &str, code: i32) {
        let error = ResourceError {
            resource_name: Some(ParametrizedName {
                name: name.to_owned(),
                ..ParametrizedName::default()
            }),
            error_detail: Some(Status {
                code,
                ..Status::default()
            }),
        };
        let response = DeltaDiscoveryResponse {
            resource_errors: vec![error],
            type_url: ResourceType::CLUSTER.type_url().to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let _ = self
            .client
            .handle_delta_response(self.now, Self::id(server), response);
    }

    fn settle(&mut self) {
        let mut transmits = 0;
        while let Some((server, transmit)) = self.client.poll_transmit(self.now) {
            transmits += 1;
            assert!(transmits < 20, "it talks without end");
            let server = server.index();
            match transmit {
                AdsTransmit::Open => {
                    let since = self.failed[server].take();
                    let since = since.map(|at| self.latest.saturating_since(at));
                    let is_early = since.is_some_and(|since| since < 800 * MILLISECOND);
                    assert!(!is_early, "called again after {since:?}");
                    self.begun[server] = self.now;
                    self.calls[server] += 1;
                    self.opening[server] = true;
                }
                AdsTransmit::Close => (self.opening[server], self.open[server]) = (false, false),
                AdsTransmit::SotwRequest(request) => {
                    let detail = request.error_detail.unwrap_or_default();
                    assert!(detail.message.len() < 1 << 17, "bounded, whatever was sent");
                }
                AdsTransmit::DeltaRequest(_) => {}
            }
        }
        let mut events = 0;
        while let Some(event) = self.client.poll_event() {
            explained(&event);
            events += 1;
        }
        assert!(events <= 3 * NAMES.len(), "{events} events of one step");
    }

    /// Checks that exactly the watched names are cached, and that accepted resources stay.
    fn compare(&mut self, may_drop: bool, op: &Op) {
        let known = self.client.resources().map(|(_, name, _)| name.to_string());
        let watched = NAMES
            .iter()
            .zip(self.watched)
            .filter(|(_, watchers)| *watchers > 0);
        let watched: Vec<_> = watched.map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(known.collect::<Vec<_>>(), watched);
        let mut held = BTreeMap::new();
        for name in NAMES {
            let cached = self.client.cached(&ResourceType::CLUSTER, name);
            if let Some(value) = cached.and_then(|cached| cached.held) {
                held.insert(name, Bytes::copy_from_slice(value.resource.value()));
            }
        }
        if !may_drop {
            assert_eq!(held, self.held, "{op:?} changed what is held");
        }
        self.held = held;
    }

    /// From now on everything works: the first server is up, and has all resources.
    pub(super) fn heal(&mut self) {
        self.close(0);
        self.close(1);
        for _ in 0..4 {
            self.now = self.latest + Duration::from_secs(200);
            self.latest = self.now;
            self.client.handle_timeout(self.now);
            self.settle();
            if std::mem::take(&mut self.opening[0]) {
                self.open[0] = true;
                self.client.handle_opened(Self::id(0));
                self.settle();
            }
            if self.open[0] {
                let all = (0..NAMES.len()).map(|name| (name, Body::Good(7)));
                self.respond(0, &all.collect::<Vec<_>>());
                self.settle();
            }
        }
        for (name, watchers) in NAMES.iter().zip(self.watched) {
            let cached = self.client.cached(&ResourceType::CLUSTER, name);
            assert_eq!(cached.is_some(), watchers > 0);
            if let Some(cached) = cached {
                let held = cached.held.expect("it is there");
                assert_eq!(held.resource.value(), &any_of(name, Body::Good(7)).value);
                assert!(cached.error.is_none(), "{:?}", cached.error);
                assert_eq!(held.server, Self::id(0));
            }
        }
        assert_eq!(self.client.poll_timeout(), None, "nothing is waited for");
    }
}

/// Every error has the resource, the node and the server (C-118).
fn explained(event: &ClientEvent) {
    let (ClientEvent::Changed {
        name,
        resource: Err(error),
        ..
    }
    | ClientEvent::Ambient {
        name,
        error: Some(error),
        ..
    }) = event
    else {
        return;
    };
    let error: &WatchError = error;
    let text = error.to_string();
    let server = text.contains("first:1") || text.contains("second:2");
    let named = text.contains(&format!("{name:?}")) && text.contains("node-1");
    assert!(server && named, "{text}");
}
