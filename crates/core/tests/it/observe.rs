//! The observer, at the other end of a session.

use std::sync::Arc;

use oxds_core::observe::{ObservedChange, Observer, ObserverRequest};
use oxds_core::session::{Config, Event, Scope, Session};
use oxds_core::snapshot::{ChangeSet, Protocol, Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::discovery::{Any, DeltaDiscoveryResponse, DiscoveryResponse, Node};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message;

/// A server with one stream, and an observer at its end.
struct Pair {
    snapshot: Arc<Snapshot>,
    session: Session,
    observer: Observer,
}

impl Pair {
    fn new(resource_type: ResourceType, names: &[&str], protocol: Protocol) -> Self {
        let node = Node {
            id: "observer".into(),
            ..Node::default()
        };
        Self {
            snapshot: Snapshot::unloaded(),
            session: session(protocol),
            observer: Observer::new(
                resource_type,
                names.iter().map(|&name| name.into()),
                protocol,
                node,
            ),
        }
    }

    fn apply(&mut self, upserts: &[(ResourceType, &str, u8)], removals: &[(ResourceType, &str)]) {
        let upserts = upserts.iter().map(|(resource_type, name, content)| {
            let mut value = vec![0x0a, name.len() as u8];
            value.extend_from_slice(name.as_bytes());
            value.extend_from_slice(&[0x10, *content]);
            Arc::new(Resource::new(resource_type.clone(), *name, &value))
        });
        let removals = removals
            .iter()
            .map(|(resource_type, name)| (resource_type.clone(), Arc::from(*name)));
        let changes = ChangeSet {
            upserts: upserts.collect(),
            removals: removals.collect(),
        };
        (self.snapshot, _) = self.snapshot.apply(changes);
    }

    /// The stream breaks, and another one is opened.
    fn open(&mut self) -> Vec<String> {
        self.session = session(self.observer.protocol());
        let request = self.observer.handle_opened();
        self.send(request);
        self.run()
    }

    /// Carries messages until both ends have none left; returns the changes.
    fn run(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        while let Some(sent) = self.session.poll_transmit(Instant::EPOCH, &self.snapshot) {
            let message = sent.frame.message();
            let (request, changed) = match self.observer.protocol() {
                Protocol::Sotw => self
                    .observer
                    .handle_response(DiscoveryResponse::decode(message).unwrap()),
                Protocol::Delta => self
                    .observer
                    .handle_delta_response(DeltaDiscoveryResponse::decode(message).unwrap()),
            };
            changes.extend(changed.iter().map(text));
            self.send(request);
        }
        while let Some(event) = self.session.poll_event() {
            assert!(!matches!(event, Event::Nacked { .. }), "{event:?}");
        }
        changes
    }

    fn send(&mut self, request: ObserverRequest) {
        let request = match request {
            ObserverRequest::Sotw(request) => (*request).into(),
            ObserverRequest::Delta(request) => (*request).into(),
        };
        self.session
            .handle_request(Instant::EPOCH, request)
            .unwrap();
    }
}

fn session(protocol: Protocol) -> Session {
    Session::new(protocol, Scope::Aggregated, Arc::new(Config::default()))
}

/// `+a1`: added; `~a2`: changed; `-a`: removed.
fn text(change: &ObservedChange) -> String {
    let name = &change.name;
    match (&change.now, change.was_held) {
        (Some(now), false) => format!("+{name}{}", now.value.last().unwrap()),
        (Some(now), true) => format!("~{name}{}", now.value.last().unwrap()),
        (None, _) => format!("-{name}"),
    }
}

/// Given listeners a and b; then a wildcard observer gets both, then only what changes, and after its stream broke only
/// what changed in between; the server counts it as a client in sync.
#[test]
fn wildcard_observer_follows_every_change() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut pair = Pair::new(ResourceType::LISTENER, &[], protocol);
        pair.apply(
            &[
                (ResourceType::LISTENER, "a", 1),
                (ResourceType::LISTENER, "b", 1),
            ],
            &[],
        );
        assert_eq!(pair.open(), ["+a1", "+b1"], "{protocol:?}");
        pair.apply(&[(ResourceType::LISTENER, "a", 2)], &[]);
        assert_eq!(pair.run(), ["~a2"]);
        pair.apply(
            &[(ResourceType::LISTENER, "c", 1)],
            &[(ResourceType::LISTENER, "b")],
        );
        let mut changes = pair.run();
        changes.sort();
        assert_eq!(changes, ["+c1", "-b"]);
        assert!(pair.session.is_in_sync(&pair.snapshot));

        pair.apply(
            &[(ResourceType::LISTENER, "a", 3)],
            &[(ResourceType::LISTENER, "c")],
        );
        let mut changes = pair.open();
        changes.sort();
        assert_eq!(changes, ["-c", "~a3"], "{protocol:?}");
        assert_eq!(pair.observer.held().count(), 1);
    }
}

/// Given assignments a and b, and no z; then an observer of a and z gets a, and on a delta stream the removal of z.
#[test]
fn observer_of_names_follows_only_those() {
    for (protocol, told) in [
        (Protocol::Sotw, &["+a1"][..]),
        (Protocol::Delta, &["+a1", "-z"]),
    ] {
        let mut pair = Pair::new(ResourceType::ENDPOINT, &["a", "z"], protocol);
        pair.apply(
            &[
                (ResourceType::ENDPOINT, "a", 1),
                (ResourceType::ENDPOINT, "b", 1),
            ],
            &[],
        );
        assert_eq!(pair.open(), told);
        pair.apply(
            &[
                (ResourceType::ENDPOINT, "b", 2),
                (ResourceType::ENDPOINT, "z", 1),
            ],
            &[],
        );
        assert_eq!(pair.run(), ["+z1"]);
    }
}

/// Resource types without the legacy wildcard are requested by `*`.
#[test]
fn observer_of_all_assignments_requests_the_wildcard() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut pair = Pair::new(ResourceType::ENDPOINT, &[], protocol);
        pair.apply(
            &[
                (ResourceType::ENDPOINT, "a", 1),
                (ResourceType::CLUSTER, "b", 1),
            ],
            &[],
        );
        assert_eq!(pair.open(), ["+a1"], "{protocol:?}");
    }
}

/// Given a response with a resource of another type, or without a name; then the whole response is NACKed.
#[test]
fn unreadable_resource_rejects_the_response() {
    for (type_url, value, said) in [
        (
            ResourceType::LISTENER.type_url(),
            &b"\x0a\x01a"[..],
            "wrong type_url",
        ),
        (ResourceType::CLUSTER.type_url(), b"", "has no name"),
        (ResourceType::CLUSTER.type_url(), b"\x0a\x05a", ""),
    ] {
        let mut pair = Pair::new(ResourceType::CLUSTER, &[], Protocol::Sotw);
        let (request, changes) = pair.observer.handle_response(DiscoveryResponse {
            version_info: "1".into(),
            type_url: ResourceType::CLUSTER.type_url().into(),
            resources: vec![Any {
                type_url: type_url.into(),
                value: value.to_vec().into(),
            }],
            ..DiscoveryResponse::default()
        });
        let ObserverRequest::Sotw(request) = request else {
            panic!("{request:?}")
        };
        let error = request.error_detail.unwrap();
        assert!(error.message.contains(said), "{error:?}");
        assert!(changes.is_empty() && request.version_info.is_empty());
    }
}

/// Given an observer with v2 requests; then requests and responses are v2; a response with v3 type URLs is accepted,
/// too, and acknowledged in v2.
#[test]
fn s62_v2_observer_gets_the_same_in_v2() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut pair = Pair::new(ResourceType::CLUSTER, &[], protocol);
        pair.observer = pair.observer.with_api_version(ApiVersion::V2);
        pair.apply(&[(ResourceType::CLUSTER, "a", 1)], &[]);
        let changes = pair.open();
        assert_eq!(changes.len(), 1, "{changes:?}");
        let (_, held) = pair.observer.held().next().unwrap();
        assert_eq!(held.api, ApiVersion::V2);
    }
    let node = Node::default();
    let names = std::iter::empty();
    let mut observer = Observer::new(ResourceType::CLUSTER, names, Protocol::Sotw, node);
    observer = observer.with_api_version(ApiVersion::V2);
    let response = DiscoveryResponse {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        resources: vec![Any {
            type_url: ResourceType::CLUSTER.type_url().to_owned(),
            value: vec![0x0a, 1, b'a'].into(),
        }],
        ..DiscoveryResponse::default()
    };
    let (request, changes) = observer.handle_response(response);
    assert_eq!(changes[0].now.as_ref().unwrap().api, ApiVersion::V3);
    let ObserverRequest::Sotw(answer) = request else {
        panic!("expected a SotW request");
    };
    assert_eq!(
        answer.type_url,
        ResourceType::CLUSTER.type_url_in(ApiVersion::V2).unwrap()
    );
    assert_eq!(answer.error_detail, None);
}
