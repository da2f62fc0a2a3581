//! Two servers that never repeat a version: like a cache that compares versions, they do not answer a client that has
//! the current one. They come and go. Once the server of higher priority stays, the client has all resources from it
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::ads::{
    AdsTransmit, AuthorityId, Client, ClientConfig, Protocol, Server, ServerId, WatchErrorReason,
};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, DiscoveryResponse, Node, Resource as Wrapper};
use proptest::prelude::*;

use super::{assignment, cluster, response};
use crate::support::cases::cases;

const NAMES: [&str; 3] = ["a", "b", "c"];
const TYPES: [ResourceType; 2] = [ResourceType::CLUSTER, ResourceType::ENDPOINT];

#[derive(Debug, Clone)]
enum Op {
    Watch(usize, usize),
    Unwatch(usize, usize),
    /// Unwatched, and watched again before a request is written.
    Rewatch(usize, usize),
    /// All names are unwatched; the last one is watched again if `true`.
    Release(bool),
    /// The server changes a resource of a type.
    Changes(usize, usize),
    Comes(usize),
    Goes(usize),
    /// One response arrives.
    Arrives(usize),
    Passes(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let server = || 0..2_usize;
    let watched = || (0..2_usize, 0..NAMES.len());
    prop_oneof![
        3 => watched().prop_map(|(resource_type, name)| Op::Watch(resource_type, name)),
        2 => watched().prop_map(|(resource_type, name)| Op::Unwatch(resource_type, name)),
        1 => watched().prop_map(|(resource_type, name)| Op::Rewatch(resource_type, name)),
        1 => any::<bool>().prop_map(Op::Release),
        1 => (server(), 0..2_usize).prop_map(|(server, resource_type)| Op::Changes(server, resource_type)),
        3 => server().prop_map(Op::Comes),
        2 => server().prop_map(Op::Goes),
        6 => server().prop_map(Op::Arrives),
        4 => (0..3_000_u64).prop_map(Op::Passes),
    ]
}

/// A server, with its end of the stream if one is open.
#[derive(Default)]
struct Terse {
    letter: char,
    is_up: bool,
    /// Resources by type.
    versions: [u32; 2],
    /// Everything that it ever sent: type, name, version.
    sent: BTreeSet<(usize, String, String)>,
    stream: Option<Stream>,
}

#[derive(Default)]
struct Stream {
    /// By type, what the client has on this stream, sent or reported as initial version: name and version.
    known: [BTreeMap<String, String>; 2],
    asked: [BTreeSet<String>; 2],
    /// Types for which a response may be due.
    due: Vec<usize>,
}

enum Sent {
    State(DiscoveryResponse),
    Difference(DeltaDiscoveryResponse),
}

impl Terse {
    fn version(&self, resource_type: usize) -> String {
        format!("{}{}", self.letter, self.versions[resource_type])
    }

    /// A request; `claimed` are the versions that the client reports.
    fn hears(
        &mut self,
        resource_type: usize,
        asked: BTreeSet<String>,
        claimed: impl IntoIterator<Item = (String, String)>,
    ) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        // The server knows only what it sent itself.
        let claimed = claimed.into_iter().filter(|(name, version)| {
            self.sent
                .contains(&(resource_type, name.clone(), version.clone()))
        });
        // xDS protocol, "Unsubscribing From Resources": of a name that is not asked for, the client has nothing (S-10).
        stream.known[resource_type].retain(|name, _| asked.contains(name));
        stream.known[resource_type].extend(claimed);
        stream.asked[resource_type] = asked;
        stream.due.push(resource_type);
    }

    /// Resources of a type that the client lacks, as far as the server knows; `None` if it lacks nothing.
    fn says(&mut self, protocol: Protocol) -> Option<Sent> {
        loop {
            let stream = self.stream.as_mut()?;
            let resource_type = stream.due.pop()?;
            let version = format!("{}{}", self.letter, self.versions[resource_type]);
            let mut names = stream.asked[resource_type].clone();
            let lacks = |name: &String| stream.known[resource_type].get(name) != Some(&version);
            if !names.iter().any(lacks) {
                continue;
            }
            if protocol == Protocol::Delta {
                names.retain(|name| stream.known[resource_type].get(name) != Some(&version));
            }
            for name in &names {
                stream.known[resource_type].insert(name.clone(), version.clone());
                self.sent
                    .insert((resource_type, name.clone(), version.clone()));
            }
            return Some(respond(resource_type, &version, &names, protocol));
        }
    }
}

fn respond(
    resource_type: usize,
    version: &str,
    names: &BTreeSet<String>,
    protocol: Protocol,
) -> Sent {
    let any = |name: &String| match resource_type {
        0 => cluster(name, version),
        _ => assignment(name),
    };
    if protocol == Protocol::Sotw {
        let resources = names.iter().map(any).collect();
        return Sent::State(response(&TYPES[resource_type], version, "n", resources));
    }
    let wrapped = names.iter().map(|name| Wrapper {
        name: name.clone(),
        version: version.to_owned(),
        resource: Some(any(name)),
        ..Wrapper::default()
    });
    Sent::Difference(DeltaDiscoveryResponse {
        resources: wrapped.collect(),
        type_url: TYPES[resource_type].type_url().to_owned(),
        nonce: "n".to_owned(),
        ..DeltaDiscoveryResponse::default()
    })
}

struct World {
    client: Client,
    now: Instant,
    protocol: Protocol,
    ids: [ServerId; 2],
    servers: [Terse; 2],
    opening: [bool; 2],
    watched: BTreeSet<(usize, usize)>,
}

impl World {
    fn new(protocol: Protocol) -> Self {
        let mut config = ClientConfig::new(Node::default());
        let ids = ["P", "F"].map(|uri| {
            config.add_server(Server {
                protocol,
                ..Server::new(uri)
            })
        });
        config.add_authority(ids.to_vec());
        let servers = ['P', 'F'].map(|letter| Terse {
            letter,
            is_up: true,
            ..Terse::default()
        });
        Self {
            client: Client::new(config),
            now: Instant::EPOCH,
            protocol,
            ids,
            servers,
            opening: [false; 2],
            watched: BTreeSet::new(),
        }
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Watch(resource_type, name) => self.watch(*resource_type, *name),
            Op::Unwatch(resource_type, name) => self.unwatch(*resource_type, *name),
            Op::Rewatch(resource_type, name) => {
                if self.watched.contains(&(*resource_type, *name)) {
                    self.unwatch(*resource_type, *name);
                    self.watch(*resource_type, *name);
                }
            }
            Op::Release(is_last_kept) => {
                let watched = self.watched.clone();
                for (resource_type, name) in &watched {
                    self.unwatch(*resource_type, *name);
                }
                if let Some((resource_type, name)) = watched.last().filter(|_| *is_last_kept) {
                    self.watch(*resource_type, *name);
                }
            }
            Op::Changes(server, resource_type) => {
                let server = &mut self.servers[*server];
                server.versions[*resource_type] += 1;
                if let Some(stream) = &mut server.stream {
                    stream.due.push(*resource_type);
                }
            }
            Op::Comes(server) => self.servers[*server].is_up = true,
            Op::Goes(server) => {
                self.servers[*server].is_up = false;
                if self.servers[*server].stream.take().is_some() {
                    self.closed(*server);
                }
            }
            Op::Arrives(server) => {
                self.arrives(*server);
            }
            Op::Passes(ms) => self.passes(Duration::from_millis(*ms)),
        }
        self.settle();
    }

    fn watch(&mut self, resource_type: usize, name: usize) {
        if self.watched.insert((resource_type, name)) {
            let name = Arc::from(NAMES[name]);
            self.client
                .watch(AuthorityId::default(), &TYPES[resource_type], &name);
        }
    }

    fn unwatch(&mut self, resource_type: usize, name: usize) {
        if self.watched.remove(&(resource_type, name)) {
            self.client.unwatch(&TYPES[resource_type], NAMES[name]);
        }
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
    }

    fn closed(&mut self, server: usize) {
        let id = self.ids[server];
        self.client.handle_closed(self.now, id, "it is down", 0);
    }

    fn arrives(&mut self, server: usize) -> bool {
        let id = self.ids[server];
        match self.servers[server].says(self.protocol) {
            None => return false,
            Some(Sent::State(response)) => {
                self.client.handle_response(self.now, id, response);
            }
            Some(Sent::Difference(response)) => {
                self.client.handle_delta_response(self.now, id, response);
            }
        }
        true
    }

    /// The client subscribes to its names, and all servers that are up accept connections.
    fn settle(&mut self) {
        loop {
            self.transmit();
            let Some(server) = self.opening.iter().position(|is_opening| *is_opening) else {
                break;
            };
            self.opening[server] = false;
            if self.servers[server].is_up {
                self.servers[server].stream = Some(Stream::default());
                self.client.handle_opened(self.ids[server]);
            } else {
                self.closed(server);
            }
        }
        while self.client.poll_event().is_some() {}
    }

    fn transmit(&mut self) {
        while let Some((id, transmit)) = self.client.poll_transmit(self.now) {
            let server = id.index();
            match transmit {
                AdsTransmit::Open => self.opening[server] = true,
                AdsTransmit::Close => {
                    self.opening[server] = false;
                    self.servers[server].stream = None;
                }
                AdsTransmit::SotwRequest(request) => {
                    let resource_type = resource_type(&request.type_url);
                    let names: BTreeSet<_> = request.resource_names.into_iter().collect();
                    // A reported version means that the client has everything of that version.
                    let version = request.version_info;
                    let claimed: Vec<_> = names
                        .iter()
                        .map(|name| (name.clone(), version.clone()))
                        .collect();
                    self.servers[server].hears(resource_type, names, claimed);
                }
                AdsTransmit::DeltaRequest(request) => {
                    let resource_type = resource_type(&request.type_url);
                    let stream = self.servers[server].stream.as_mut();
                    let mut names = stream.map_or_else(BTreeSet::new, |stream| {
                        // DeltaDiscoveryRequest: a resource that is subscribed again is sent again.
                        let subscribed = &request.resource_names_subscribe;
                        stream.known[resource_type].retain(|name, _| !subscribed.contains(name));
                        stream.asked[resource_type].clone()
                    });
                    names.retain(|name| !request.resource_names_unsubscribe.contains(name));
                    names.extend(request.resource_names_subscribe);
                    self.servers[server].hears(
                        resource_type,
                        names,
                        request.initial_resource_versions,
                    );
                }
            }
        }
    }

    /// The server of higher priority is up, and stays up.
    fn heal(&mut self) {
        self.servers[0].is_up = true;
        for _ in 0..4 {
            self.passes(Duration::from_secs(200));
            self.settle();
            // The server of lower priority answers as fast as it can.
            for server in [1, 0] {
                while self.arrives(server) {
                    self.settle();
                }
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.client.resources().count(), self.watched.len());
        for (resource_type, name) in &self.watched {
            let cached = self
                .client
                .cached(&TYPES[*resource_type], NAMES[*name])
                .unwrap();
            let held = cached.held.unwrap_or_else(|| panic!("nothing: {cached:?}"));
            assert_eq!(
                held.server, self.ids[0],
                "{} {}",
                TYPES[*resource_type], NAMES[*name]
            );
            assert_eq!(*held.version, *self.servers[0].version(*resource_type));
            // The error of its absence stays until its next response (gRFC A57).
            let error = cached.error.map(|error| error.reason);
            assert!(matches!(error, None | Some(WatchErrorReason::Unreachable)));
        }
        let spare = self.client.is_connected(self.ids[1]);
        assert_eq!(spare, None, "nothing is asked of F");
    }
}

fn resource_type(type_url: &str) -> usize {
    let found = TYPES
        .iter()
        .position(|resource_type| resource_type.type_url() == type_url);
    found.unwrap()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn c158_stable_first_server_serves_everything(
        is_delta in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let protocol = if is_delta { Protocol::Delta } else { Protocol::Sotw };
        let mut world = World::new(protocol);
        for op in &ops {
            world.play(op);
        }
        world.heal();
        world.check();
    }
}
