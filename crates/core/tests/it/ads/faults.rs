//! Servers at their worst, and a clock that jumps: whatever they do, the client keeps what was good, says why, and ends up
//! with what there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxds_core::ads::{
    AuthorityId, Client, Config, Event, Protocol, Server, ServerId, Transmit, WatchError,
};
use oxds_core::time::Instant;
use oxds_types::Kind;
use oxds_types::discovery::{
    Any, DeltaDiscoveryResponse, DiscoveryResponse, Node, ParametrizedName, Resource as Wrapper,
    ResourceError, Status,
};
use proptest::prelude::*;

use super::{assignment, bad_cluster, cluster};
use crate::support::cases::cases;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const MILLISECOND: Duration = Duration::from_millis(1);

/// What is sent under a name.
#[derive(Debug, Clone, Copy)]
enum Body {
    Good(u8),
    Bad,
    /// Cut off in the middle.
    Cut,
    /// Messages in messages, deeper than any reader follows.
    Deep,
    /// A resource of another kind.
    OfAnotherKind,
    /// A type URL that is none.
    OfNoKind,
    Huge,
}

#[derive(Debug, Clone)]
enum Op {
    Watch(usize),
    Unwatch(usize),
    /// The first or the second server connects, if it was told to.
    Opened(usize),
    Closed(usize),
    /// Names, some of them twice, some never asked for.
    Responds(usize, Vec<(usize, Body)>),
    /// The same response once more.
    Repeats(usize),
    /// By differences: there is no such resource.
    Removes(usize, usize),
    Reports(usize, usize, i32),
    OfUnknownKind(usize),
    /// The clock goes on, by anything from nothing to a year.
    Jumps(Duration),
    /// And now and then it goes back.
    Falls(Duration),
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => any::<u8>().prop_map(Body::Good),
        2 => Just(Body::Bad),
        1 => Just(Body::Cut),
        1 => Just(Body::Deep),
        1 => Just(Body::OfAnotherKind),
        1 => Just(Body::OfNoKind),
        1 => Just(Body::Huge),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let (name, server) = (0..NAMES.len(), 0..2_usize);
    let jump = prop_oneof![0..2_000_u64, 0..31_536_000_000_u64];
    let resources = prop::collection::vec((name.clone(), body()), 0..5);
    prop_oneof![
        3 => name.clone().prop_map(Op::Watch),
        1 => name.clone().prop_map(Op::Unwatch),
        4 => server.clone().prop_map(Op::Opened),
        2 => server.clone().prop_map(Op::Closed),
        6 => (server.clone(), resources).prop_map(|(server, of)| Op::Responds(server, of)),
        1 => server.clone().prop_map(Op::Repeats),
        1 => (server.clone(), name.clone()).prop_map(|(server, name)| Op::Removes(server, name)),
        1 => (server.clone(), name, 0..17).prop_map(|(server, name, code)| Op::Reports(server, name, code)),
        1 => server.prop_map(Op::OfUnknownKind),
        4 => jump.prop_map(|ms| Op::Jumps(Duration::from_millis(ms))),
        1 => (0..5_000_u64).prop_map(|ms| Op::Falls(Duration::from_millis(ms))),
    ]
}

/// The client, and what it must never lose sight of.
struct Tried {
    client: Client,
    now: Instant,
    /// The latest that it has been: the clock may have fallen back since.
    latest: Instant,
    protocol: Protocol,
    watched: [usize; NAMES.len()],
    /// By server: told to connect, and not yet connected or given up.
    opening: [bool; 2],
    open: [bool; 2],
    /// When it was told to connect last.
    begun: [Instant; 2],
    /// How often each was told to connect.
    calls: [usize; 2],
    /// When an attempt or a stream that failed had begun, if it was not told to connect since.
    failed: [Option<Instant>; 2],
    last: Option<Vec<(usize, Body)>>,
    /// What each name was last known to hold.
    held: BTreeMap<&'static str, Bytes>,
}

impl Tried {
    fn new(protocol: Protocol) -> Self {
        let mut config = Config::new(Node {
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
        let mut config = Config::new(Node::default());
        let ids = [(); 2].map(|()| config.add_server(Server::new("")));
        ids[index]
    }

    fn play(&mut self, op: &Op) {
        let mut may_drop = false;
        match op {
            Op::Watch(name) => {
                self.watched[*name] += 1;
                let name = Arc::from(NAMES[*name]);
                let told = self
                    .client
                    .watch(AuthorityId::default(), &Kind::CLUSTER, &name);
                told.iter().for_each(explained);
            }
            Op::Unwatch(name) => {
                if self.watched[*name] > 0 {
                    self.watched[*name] -= 1;
                    may_drop = true;
                    self.client.unwatch(&Kind::CLUSTER, NAMES[*name]);
                }
            }
            Op::Opened(server) => {
                if std::mem::take(&mut self.opening[*server]) {
                    self.open[*server] = true;
                    self.client.handle_opened(Self::id(*server));
                }
            }
            Op::Closed(server) => self.close(*server),
            Op::Responds(server, of) => {
                // What is left out of a full state is deleted, and so is what a difference says.
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
                    type_url: Kind::CLUSTER.type_url().to_owned(),
                    ..DeltaDiscoveryResponse::default()
                };
                let id = Self::id(*server);
                let _ = self.client.handle_difference(self.now, id, response);
            }
            Op::Reports(server, name, code) => self.report(*server, NAMES[*name], *code),
            Op::OfUnknownKind(server) => {
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
            let response = super::response(&Kind::CLUSTER, "v", "n", resources.collect());
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
            type_url: Kind::CLUSTER.type_url().to_owned(),
            nonce: "n".to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let _ = self.client.handle_difference(self.now, id, response);
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
            type_url: Kind::CLUSTER.type_url().to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let _ = self
            .client
            .handle_difference(self.now, Self::id(server), response);
    }

    fn settle(&mut self) {
        let mut transmits = 0;
        while let Some((server, transmit)) = self.client.poll_transmit(self.now) {
            transmits += 1;
            assert!(transmits < 20, "it talks without end");
            let server = server.index();
            match transmit {
                Transmit::Open => {
                    let since = self.failed[server].take();
                    let since = since.map(|at| self.latest.saturating_since(at));
                    let is_early = since.is_some_and(|since| since < 800 * MILLISECOND);
                    assert!(!is_early, "called again after {since:?}");
                    self.begun[server] = self.now;
                    self.calls[server] += 1;
                    self.opening[server] = true;
                }
                Transmit::Close => (self.opening[server], self.open[server]) = (false, false),
                Transmit::Request(request) => {
                    let detail = request.error_detail.unwrap_or_default();
                    assert!(detail.message.len() < 1 << 17, "bounded, whatever was sent");
                }
                Transmit::Delta(_) => {}
            }
        }
        let mut events = 0;
        while let Some(event) = self.client.poll_event() {
            explained(&event);
            events += 1;
        }
        assert!(events <= 3 * NAMES.len(), "{events} events of one step");
    }

    /// What is watched is known, nothing else is, and what was good stays.
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
            let cached = self.client.cached(&Kind::CLUSTER, name);
            if let Some(value) = cached.and_then(|cached| cached.held) {
                held.insert(name, Bytes::copy_from_slice(value.resource.value()));
            }
        }
        if !may_drop {
            assert_eq!(held, self.held, "{op:?} changed what is held");
        }
        self.held = held;
    }

    /// All goes well from now on: the first server is there, and has everything.
    fn heal(&mut self) {
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
            let cached = self.client.cached(&Kind::CLUSTER, name);
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

fn any_of(name: &str, body: Body) -> Any {
    match body {
        Body::Good(service) => cluster(name, &format!("s{service}")),
        Body::Bad => bad_cluster(name),
        Body::Cut => {
            let whole = cluster(name, "");
            let value = whole.value.slice(..whole.value.len() - 1);
            Any { value, ..whole }
        }
        Body::Deep => deep(name),
        Body::OfAnotherKind => assignment(name),
        Body::OfNoKind => Any {
            type_url: "nonsense".to_owned(),
            ..cluster(name, "")
        },
        Body::Huge => cluster(name, &"x".repeat(1 << 16)),
    }
}

/// A cluster with a Struct in its metadata that holds a list that holds a list, and so on.
fn deep(name: &str) -> Any {
    let mut value = vec![0x08, 0x00];
    let field = |tag: u8, inner: &[u8]| {
        let mut outer = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend_from_slice(inner);
        outer
    };
    for _ in 0..200 {
        // Value.list_value (6) of ListValue.values (1).
        value = field(6 << 3 | 2, &field(1 << 3 | 2, &value));
    }
    // Struct.fields (1) is a map of Value (2), Metadata.filter_metadata (1) one of Struct, and Cluster.metadata is 25.
    let structure = field(1 << 3 | 2, &field(2 << 3 | 2, &value));
    let metadata = field(1 << 3 | 2, &field(2 << 3 | 2, &structure));
    let mut bytes = field(1 << 3 | 2, name.as_bytes());
    prost::encoding::encode_varint(25 << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(metadata.len() as u64, &mut bytes);
    bytes.extend_from_slice(&metadata);
    Any {
        type_url: Kind::CLUSTER.type_url().to_owned(),
        value: bytes.into(),
    }
}

/// Every error says of what, for whom, and from where (C-118).
fn explained(event: &Event) {
    let (Event::Changed {
        name,
        resource: Err(error),
        ..
    }
    | Event::Ambient {
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

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_servers_and_clocks_do_what_is_good_stays_and_all_ends_well(
        is_delta in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let protocol = if is_delta { Protocol::Delta } else { Protocol::Sotw };
        let mut tried = Tried::new(protocol);
        for op in &ops {
            tried.play(op);
        }
        tried.heal();
    }
}

/// given a server that is restarted every second, for a minute / then it is called once a second if it answers in between, and
/// ever less often if it does not; what is held stays, and afterwards all is as it should be.
#[test]
fn a_minute_of_restarts_costs_a_call_a_second_at_most() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        for (answers, calls) in [(true, 40..=61), (false, 5..=12)] {
            let mut tried = Tried::new(protocol);
            tried.play(&Op::Watch(0));
            tried.play(&Op::Opened(0));
            tried.play(&Op::Responds(0, vec![(0, Body::Good(1))]));
            for _ in 0..60 {
                tried.play(&Op::Closed(0));
                for _ in 0..10 {
                    tried.play(&Op::Jumps(100 * MILLISECOND));
                    if tried.opening[0] {
                        tried.play(&Op::Opened(0));
                        if answers {
                            tried.play(&Op::Responds(0, vec![(0, Body::Good(1))]));
                        }
                    }
                }
                assert!(tried.held.contains_key("a"));
            }
            assert!(calls.contains(&tried.calls[0]), "{:?}", tried.calls);
            assert_eq!(tried.calls[1], 0, "all is held");
            tried.heal();
        }
    }
}

/// given a resource nested deeper than any reader follows / then it alone is rejected.
#[test]
fn c120_a_resource_that_is_nested_too_deep_is_rejected_and_nothing_else() {
    let (mut played, _) = super::Played::watching_clusters(&["a", "b"]);
    let both = vec![deep("a"), cluster("b", "")];
    played.respond(&Kind::CLUSTER, "v1", "n1", both);
    let detail = played.request().error_detail.unwrap().message;
    assert!(
        detail.contains("a: cannot be decoded: ") && detail.contains("recursion"),
        "{detail}"
    );
    assert_eq!(
        played.events().first().map(String::as_str),
        Some("b: changed")
    );
}

/// given a server that sends nothing but what is wrong, at once after every answer / then each is answered, the value stays,
/// its watcher hears of it once, and a detail has bounds.
#[test]
fn a_storm_of_rejections_costs_its_watchers_one_word() {
    let names: Vec<String> = (0..2_000)
        .map(|n| format!("cluster-with-a-long-name-{n}"))
        .collect();
    let mut played = super::Played::new();
    for name in &names {
        played.watch(&Kind::CLUSTER, name);
    }
    played.open();
    played.request();
    let good = names.iter().map(|name| cluster(name, "")).collect();
    played.respond(&Kind::CLUSTER, "v0", "n0", good);
    played.request();
    assert_eq!(played.events().len(), names.len());
    for n in 0..20 {
        let bad = names.iter().map(|name| bad_cluster(name)).collect();
        played.respond(&Kind::CLUSTER, "v", &format!("n{n}"), bad);
        let nack = played.request();
        let detail = nack.error_detail.unwrap().message;
        assert!(
            detail.len() < 1 << 17 && detail.ends_with(" more"),
            "{}",
            detail.len()
        );
        assert_eq!(nack.version_info, "v0");
        let expected = if n == 0 { names.len() } else { 0 };
        assert_eq!(played.events().len(), expected);
    }
    let held = played
        .client
        .resources()
        .filter(|(.., cached)| cached.held.is_some());
    assert_eq!(held.count(), names.len());
}
