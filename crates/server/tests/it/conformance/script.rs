//! A client and a server in one line of text:
//! `"serve C1=1 C2=1; ask C; takes C1=1 C2=1; serve -C2; takes C1=1; silent"`.
//!
//! | step | |
//! |---|---|
//! | `serve C1=1 R1=1>C1 -E1` | apply one change set: upserts with references, and removals. The letter is the type |
//! | `ask C`, `ask C*`, `ask E1 E2` | subscribe; SotW: these names replace the earlier ones; delta: these are added |
//! | `drop E1` | delta: unsubscribe |
//! | `stale E1 E2` | as `ask`, with the nonce of the response before the latest |
//! | `gets C1=1 -C2`, `gets C` | expect that the next response has exactly these; that it is empty |
//! | `ack`, `nack`, `nack E1 E2` | answer the response, and subscribe as `ask` does |
//! | `takes C1=1` | `gets`, then `ack` |
//! | `silent` | expect that no response is pending |
//! | `again` | open a new stream; the client keeps its resources |

use std::collections::{BTreeMap, BTreeSet};

use oxds_core::snapshot::{ChangeSet, Protocol};
use oxds_server::Server;
use oxds_types::ResourceType;
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse, Node, Status,
};

use super::notation::{names, resource, text, type_of};
use crate::Running;
use crate::client::{DELTA, SOTW, Stream, ask, subscribe};

/// Plays a script over one protocol variant.
pub(super) async fn play(protocol: Protocol, script: &str) {
    let mut player = Player::start(protocol).await;
    for step in script.split(';').map(str::trim) {
        player.step(step).await;
    }
}

/// Plays a script over SotW and over delta: both must get the same responses.
pub(super) async fn play_both(script: &str) {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        play(protocol, script).await;
    }
}

struct Player {
    protocol: Protocol,
    server: Running,
    stream: Stream,
    /// Whether a request with a node was sent on this stream.
    node_sent: bool,
    of_types: BTreeMap<ResourceType, TypeState>,
    last: Received,
    /// The nonces of this stream.
    nonces: BTreeSet<String>,
    fences: usize,
}

/// The client's state for one resource type.
#[derive(Default)]
struct TypeState {
    /// Whether there was a request on this stream.
    is_open: bool,
    // SotW only: names, version, nonce.
    names: Vec<String>,
    version: String,
    nonce: String,
    /// The nonce of the response before the latest.
    stale: String,
    // Delta only: name to version.
    has: BTreeMap<String, String>,
}

/// A response, in the notation of scripts.
#[derive(Default)]
struct Received {
    type_url: String,
    version: String,
    nonce: String,
    /// Words like `C1=1`, and `-C2` for a removal.
    texts: BTreeSet<String>,
    /// Delta: names and versions.
    versions: Vec<(String, String)>,
}

impl Player {
    async fn start(protocol: Protocol) -> Self {
        let server = Running::start(Server::builder()).await;
        let stream = Self::connect(protocol, &server).await;
        Self {
            protocol,
            server,
            stream,
            node_sent: false,
            of_types: BTreeMap::new(),
            last: Received::default(),
            nonces: BTreeSet::new(),
            fences: 0,
        }
    }

    async fn connect(protocol: Protocol, server: &Running) -> Stream {
        let path = match protocol {
            Protocol::Sotw => SOTW,
            Protocol::Delta => DELTA,
        };
        Stream::open(server.grpc, path).await
    }

    async fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let (verb, words) = (words[0], &words[1..]);
        match verb {
            "serve" => self.serve(words),
            "ask" => self.ask(words, &[]),
            "drop" => self.ask(&[&words[0][..1]], words),
            "stale" => self.stale(words),
            "gets" => self.gets(step, words).await,
            "takes" => {
                self.gets(step, words).await;
                self.answer(&[], None);
            }
            "ack" => self.answer(words, None),
            "nack" => self.answer(words, Some(self.error_detail())),
            "silent" => self.silent(step).await,
            "again" => self.again().await,
            _ => panic!("no such step: {step:?}"),
        }
    }

    fn serve(&self, words: &[&str]) {
        let mut changes = ChangeSet::default();
        for word in words.iter().filter(|word| word.len() > 1) {
            match word.strip_prefix('-') {
                Some(name) => changes.removals.push((type_of(word), name.into())),
                None => changes.upserts.push(resource(word).into()),
            }
        }
        self.server.cache.apply(changes);
    }

    fn ask(&mut self, words: &[&str], dropped: &[&str]) {
        let resource_type = type_of(words[0]);
        let of_type = self.of_types.entry(resource_type.clone()).or_default();
        of_type.names = names(words);
        let is_sotw = self.protocol == Protocol::Sotw;
        let nonce = if is_sotw {
            of_type.nonce.clone()
        } else {
            String::new()
        };
        self.send(&resource_type, &names(words), &names(dropped), nonce, None);
    }

    fn stale(&mut self, words: &[&str]) {
        let resource_type = type_of(words[0]);
        let of_type = self.of_types.entry(resource_type.clone()).or_default();
        of_type.names = names(words);
        let nonce = of_type.stale.clone();
        self.send(&resource_type, &names(words), &[], nonce, None);
    }

    fn answer(&mut self, words: &[&str], error: Option<Status>) {
        let (resource_type, _) = ResourceType::from_type_url(&self.last.type_url).unwrap();
        let of_type = self.of_types.entry(resource_type.clone()).or_default();
        if !words.is_empty() {
            of_type.names = names(words);
        }
        if error.is_none() {
            of_type.version.clone_from(&self.last.version);
            of_type.has.extend(self.last.versions.clone());
            let removed = self
                .last
                .texts
                .iter()
                .filter_map(|text| text.strip_prefix('-'));
            removed.for_each(|name| drop(of_type.has.remove(name)));
        }
        let nonce = self.last.nonce.clone();
        self.send(&resource_type, &names(words), &[], nonce, error);
    }

    /// Returns an error that names the resources of the last response whose content is `bad`.
    fn error_detail(&self) -> Status {
        let bad = self.last.texts.iter().filter(|text| text.contains("bad"));
        let names = bad.map(|text| text.split('=').next().unwrap_or_default());
        Status {
            code: 3,
            message: format!("no good: {}", names.collect::<Vec<_>>().join(", ")),
            ..Status::default()
        }
    }

    fn send(
        &mut self,
        resource_type: &ResourceType,
        asked: &[String],
        dropped: &[String],
        nonce: String,
        error: Option<Status>,
    ) {
        let of_type = self.of_types.entry(resource_type.clone()).or_default();
        let first = !std::mem::replace(&mut of_type.is_open, true);
        let node = |node: Option<Node>| node.filter(|_| !self.node_sent);
        match self.protocol {
            Protocol::Sotw => {
                let request = ask(resource_type.type_url(), &[]);
                self.stream.send(&DiscoveryRequest {
                    node: node(request.node.clone()),
                    resource_names: of_type.names.clone(),
                    version_info: of_type.version.clone(),
                    response_nonce: nonce,
                    error_detail: error,
                    ..request
                });
            }
            Protocol::Delta => {
                let request = subscribe(resource_type.type_url(), &[]);
                let has = of_type.has.iter().filter(|_| first);
                self.stream.send(&DeltaDiscoveryRequest {
                    node: node(request.node.clone()),
                    resource_names_subscribe: asked.to_vec(),
                    resource_names_unsubscribe: dropped.to_vec(),
                    initial_resource_versions: has.map(|(n, v)| (n.clone(), v.clone())).collect(),
                    response_nonce: nonce,
                    error_detail: error,
                    ..request
                });
            }
        }
        self.node_sent = true;
    }

    async fn receive(&mut self) -> Received {
        match self.protocol {
            Protocol::Sotw => {
                let response: DiscoveryResponse = self.stream.sotw().await;
                let inside = response.resources.iter().map(|any| &any.type_url);
                inside.for_each(|type_url| assert_eq!(*type_url, response.type_url));
                Received {
                    texts: response
                        .resources
                        .iter()
                        .map(|any| text(&any.value))
                        .collect(),
                    type_url: response.type_url,
                    version: response.version_info,
                    nonce: response.nonce,
                    versions: Vec::new(),
                }
            }
            Protocol::Delta => {
                let response = self.stream.delta().await;
                let versions = response
                    .resources
                    .iter()
                    .map(|r| (r.name.clone(), r.version.clone()));
                let versions = versions.collect();
                let bodies = response.resources.into_iter().map(|one| {
                    // An alias without a resource has neither version nor body.
                    let body = one.resource.map(|body| text(body.value));
                    assert_eq!(one.version.is_empty(), body.is_none());
                    let body = body.unwrap_or_else(|| one.name.clone());
                    assert!(
                        body.starts_with(&one.name),
                        "{body:?} is not {:?}",
                        one.name
                    );
                    body
                });
                let removed = response
                    .removed_resources
                    .iter()
                    .map(|name| format!("-{name}"));
                Received {
                    texts: bodies.chain(removed).collect(),
                    type_url: response.type_url,
                    version: response.system_version_info,
                    nonce: response.nonce,
                    versions,
                }
            }
        }
    }

    async fn gets(&mut self, step: &str, words: &[&str]) {
        let received = self.receive().await;
        assert_eq!(
            received.type_url,
            type_of(words[0]).type_url(),
            "{step}: {:?}",
            received.texts
        );
        let expected = words.iter().filter(|word| word.len() > 1);
        let expected: BTreeSet<String> = expected.map(|&word| word.to_owned()).collect();
        assert_eq!(received.texts, expected, "{step}, {:?}", self.protocol);
        assert!(!received.version.is_empty() && received.version.len() <= 16);
        assert!(
            self.nonces.insert(received.nonce.clone()),
            "the nonce was used before (S-28)"
        );
        let of_type = self.of_types.entry(type_of(words[0])).or_default();
        of_type.stale = std::mem::replace(&mut of_type.nonce, received.nonce.clone());
        self.last = received;
    }

    /// Subscribes to an unknown type, whose empty response comes after all others. The subscription has a name, so that
    /// the response needs no ACK for others to go on.
    async fn silent(&mut self, step: &str) {
        self.fences += 1;
        let url = format!("type.googleapis.com/unknown.messages.This{}", self.fences);
        match self.protocol {
            Protocol::Sotw => self.stream.send(&ask(&url, &["none"])),
            Protocol::Delta => self.stream.send(&subscribe(&url, &["none"])),
        }
        let received = self.receive().await;
        assert_eq!(received.type_url, url, "{step}: {:?}", received.texts);
    }

    async fn again(&mut self) {
        self.stream = Self::connect(self.protocol, &self.server).await;
        self.node_sent = false;
        self.nonces.clear();
        for of_type in self.of_types.values_mut() {
            of_type.is_open = false;
            of_type.nonce.clear();
            of_type.stale.clear();
        }
    }
}
