//! A client and a server in one line of text: `"serve C1=1 C2=1; ask C; takes C1=1 C2=1; serve -C2; takes C1=1; silent"`.
//!
//! | step | |
//! |---|---|
//! | `serve C1=1 R1=1>C1 -E1` | one change set: what is set, what it needs, what is removed. The letter is the kind |
//! | `ask C`, `ask C*`, `ask E1 E2` | SotW: all that is asked for from now on; delta: what is asked for besides |
//! | `drop E1` | delta: what is asked for no more |
//! | `stale E1 E2` | as `ask`, with the nonce of the response before the latest |
//! | `gets C1=1 -C2`, `gets C` | the next response has these, and nothing else; nothing at all |
//! | `ack`, `nack`, `nack E1 E2` | answers it, as `ask` does at the same time |
//! | `takes C1=1` | `gets`, and `ack` |
//! | `silent` | all that was sent so far is answered, and there is no more to come |
//! | `again` | a new stream, with what the client has |

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

/// Plays a script over a socket.
pub(super) async fn play(protocol: Protocol, script: &str) {
    let mut talk = Talk::start(protocol).await;
    for step in script.split(';').map(str::trim) {
        talk.step(step).await;
    }
}

/// Plays a script over SotW and over delta: what is told is the same.
pub(super) async fn play_both(script: &str) {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        play(protocol, script).await;
    }
}

struct Talk {
    protocol: Protocol,
    server: Running,
    stream: Stream,
    /// Whether the stream has said who asks.
    introduced: bool,
    of_types: BTreeMap<ResourceType, OfType>,
    last: Heard,
    /// Of this stream.
    nonces: BTreeSet<String>,
    fences: usize,
}

/// What the client says of one kind.
#[derive(Default)]
struct OfType {
    /// Whether there was a request on this stream.
    is_open: bool,
    // SotW.
    names: Vec<String>,
    version: String,
    nonce: String,
    /// Of the response before.
    stale: String,
    // Delta.
    has: BTreeMap<String, String>,
}

/// A response.
#[derive(Default)]
struct Heard {
    type_url: String,
    version: String,
    nonce: String,
    /// `C1=1`, and `-C2` for what is removed.
    texts: BTreeSet<String>,
    /// Delta: names and versions.
    versions: Vec<(String, String)>,
}

impl Talk {
    async fn start(protocol: Protocol) -> Self {
        let server = Running::start(Server::builder()).await;
        let stream = Self::connect(protocol, &server).await;
        Self {
            protocol,
            server,
            stream,
            introduced: false,
            of_types: BTreeMap::new(),
            last: Heard::default(),
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
            "nack" => self.answer(words, Some(self.complaint())),
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

    /// What is bad in the last response.
    fn complaint(&self) -> Status {
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
        let node = |node: Option<Node>| node.filter(|_| !self.introduced);
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
        self.introduced = true;
    }

    async fn hear(&mut self) -> Heard {
        match self.protocol {
            Protocol::Sotw => {
                let heard: DiscoveryResponse = self.stream.sotw().await;
                let inside = heard.resources.iter().map(|any| &any.type_url);
                inside.for_each(|type_url| assert_eq!(*type_url, heard.type_url));
                Heard {
                    texts: heard.resources.iter().map(|any| text(&any.value)).collect(),
                    type_url: heard.type_url,
                    version: heard.version_info,
                    nonce: heard.nonce,
                    versions: Vec::new(),
                }
            }
            Protocol::Delta => {
                let heard = self.stream.delta().await;
                let versions = heard
                    .resources
                    .iter()
                    .map(|r| (r.name.clone(), r.version.clone()));
                let versions = versions.collect();
                let bodies = heard.resources.into_iter().map(|one| {
                    // An alias of nothing has neither version nor body.
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
                let removed = heard
                    .removed_resources
                    .iter()
                    .map(|name| format!("-{name}"));
                Heard {
                    texts: bodies.chain(removed).collect(),
                    type_url: heard.type_url,
                    version: heard.system_version_info,
                    nonce: heard.nonce,
                    versions,
                }
            }
        }
    }

    async fn gets(&mut self, step: &str, words: &[&str]) {
        let heard = self.hear().await;
        assert_eq!(
            heard.type_url,
            type_of(words[0]).type_url(),
            "{step}: {:?}",
            heard.texts
        );
        let expected = words.iter().filter(|word| word.len() > 1);
        let expected: BTreeSet<String> = expected.map(|&word| word.to_owned()).collect();
        assert_eq!(heard.texts, expected, "{step}, {:?}", self.protocol);
        assert!(!heard.version.is_empty() && heard.version.len() <= 16);
        assert!(
            self.nonces.insert(heard.nonce.clone()),
            "a nonce twice (S-28)"
        );
        let of_type = self.of_types.entry(type_of(words[0])).or_default();
        of_type.stale = std::mem::replace(&mut of_type.nonce, heard.nonce.clone());
        self.last = heard;
    }

    /// A kind that nobody knows is answered at once and with nothing, and comes after all others. Of a name, so that
    /// nothing has to be acknowledged for others to go on.
    async fn silent(&mut self, step: &str) {
        self.fences += 1;
        let url = format!("type.googleapis.com/nobody.knows.This{}", self.fences);
        match self.protocol {
            Protocol::Sotw => self.stream.send(&ask(&url, &["none"])),
            Protocol::Delta => self.stream.send(&subscribe(&url, &["none"])),
        }
        let heard = self.hear().await;
        assert_eq!(heard.type_url, url, "{step}: {:?}", heard.texts);
    }

    async fn again(&mut self) {
        self.stream = Self::connect(self.protocol, &self.server).await;
        self.introduced = false;
        self.nonces.clear();
        for of_type in self.of_types.values_mut() {
            of_type.is_open = false;
            of_type.nonce.clear();
            of_type.stale.clear();
        }
    }
}
