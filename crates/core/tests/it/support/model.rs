//! An independent client: what a data plane does with what it is told, in as few words as possible.
//!
//! A resource's text is `name=content` or `name=content>needed,needed`: a listener needs routes, a route needs
//! clusters, a cluster needs an assignment. Content that contains `bad` is rejected, by name.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::google::rpc::Status;
use oxds_core::{session::Request, snapshot::Protocol, time::Instant};
use oxds_types::{
    Kind, Version,
    discovery::{DeltaDiscoveryRequest, DiscoveryRequest},
};

use super::{
    stream::{Reply, name_of},
    world::needs,
};

pub(crate) const KINDS: [Kind; 4] = [Kind::CLUSTER, Kind::ENDPOINT, Kind::LISTENER, Kind::ROUTE];

/// How a client subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Clusters and listeners all, the rest by the names that those need.
    Envoy,
    /// Some listeners, the rest by the names that those need (gRPC).
    ByName,
}

/// A client. What it holds outlives its streams.
#[derive(Debug)]
pub(crate) struct Model {
    style: Style,
    protocol: Protocol,
    /// By name: which listeners the application wants.
    pub(crate) wanted: BTreeSet<String>,
    kinds: BTreeMap<Kind, Held>,
    /// Clusters that wait for their assignment since they are new or changed.
    pub(crate) warming: BTreeSet<String>,
    /// Clusters that have been ready: while a new version of one warms, the old one serves.
    pub(crate) ready: BTreeSet<String>,
    /// What was refused on this stream, and how often: it may not come again, unless it is asked for again.
    refused: BTreeMap<(Kind, String), usize>,
    /// What the server has removed: content that returns may be refused anew, even if the refusal of its
    /// first coming arrived after the removal.
    gone: BTreeSet<(Kind, String)>,
    /// How often a name was asked for on this stream.
    asks: BTreeMap<(Kind, String), usize>,
    /// Whether requests go before the acknowledgement that they follow from.
    pub(crate) eager: bool,
    /// When what has a TTL ends, unless it is heard of.
    ends: BTreeMap<(Kind, String), Instant>,
    /// What has ended, and was not sent again since.
    ended: BTreeSet<(Kind, String)>,
}

#[derive(Debug, Default)]
struct Held {
    /// By name: the text that is in use.
    texts: BTreeMap<String, String>,
    /// Of these, those that were in a response that was acknowledged.
    acknowledged: BTreeSet<String>,
    /// What the server has been asked for, on this stream.
    asked: BTreeSet<String>,
    /// SotW: repeated in every request; the version outlives the stream.
    version: String,
    nonce: String,
    /// Whether there was a request on this stream.
    open: bool,
    /// SotW: refused in the first response of this stream, to which the client came with a version: the server cannot
    /// know what the client has instead.
    unknown: BTreeSet<String>,
    /// SotW: told, be it by absence, in a response that it refused for the sake of others.
    refused_with_others: BTreeSet<String>,
    /// Of these, those of earlier streams. Its version, which is all that it says of what it has when it comes back, does
    /// not tell (S-24).
    unsaid: BTreeSet<String>,
}

impl Model {
    pub(crate) fn new(style: Style, protocol: Protocol) -> Self {
        Self {
            style,
            protocol,
            wanted: BTreeSet::new(),
            kinds: KINDS
                .into_iter()
                .map(|kind| (kind, Held::default()))
                .collect(),
            warming: BTreeSet::new(),
            ready: BTreeSet::new(),
            refused: BTreeMap::new(),
            gone: BTreeSet::new(),
            asks: BTreeMap::new(),
            eager: false,
            ends: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    pub(crate) fn is_sotw(&self) -> bool {
        self.protocol == Protocol::Sotw
    }

    /// The texts in use.
    pub(crate) fn texts(&self, kind: &Kind) -> &BTreeMap<String, String> {
        &self.kinds[kind].texts
    }

    /// Whether the client has asked for this name all the time since the stream began. One that it let go of and took
    /// up again may be missing from a response that was on its way in between.
    pub(crate) fn asks_steadily(&self, kind: &Kind, name: &str) -> bool {
        self.asks
            .get(&(kind.clone(), name.to_owned()))
            .is_none_or(|&times| times == 1)
    }

    /// The names that the client has acknowledged.
    pub(crate) fn acknowledged(&self, kind: &Kind) -> &BTreeSet<String> {
        &self.kinds[kind].acknowledged
    }

    /// Whether the client asks for everything of the kind.
    pub(crate) fn is_wildcard(&self, kind: &Kind) -> bool {
        self.style == Style::Envoy && kind.is_full_state()
    }

    /// Whether what the client has of this is not what the version says that it claims on a new stream.
    pub(crate) fn is_unsaid(&self, kind: &Kind, name: &str) -> bool {
        self.kinds[kind].unsaid.contains(name)
    }

    /// Whether it ended here for want of a sign of life, and the server need not know.
    pub(crate) fn has_ended(&self, kind: &Kind, name: &str) -> bool {
        self.ended.contains(&(kind.clone(), name.to_owned()))
    }

    /// When the next resource ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.ends.values().min().copied()
    }

    /// What ends now, with its text: the client has it no more.
    pub(crate) fn end(&mut self, now: Instant) -> Vec<(Kind, String)> {
        let due = self.ends.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due.map(|(key, _)| key.clone()).collect();
        let mut texts = Vec::new();
        for (kind, name) in due {
            self.ends.remove(&(kind.clone(), name.clone()));
            if let Some(held) = self.kinds.get_mut(&kind) {
                held.acknowledged.remove(&name);
                texts.extend(held.texts.remove(&name).map(|text| (kind.clone(), text)));
            }
            self.warming.remove(&name);
            self.ready.remove(&name);
            self.ended.insert((kind, name));
        }
        texts
    }

    /// What a response says of how long resources live.
    fn note_ends(&mut self, now: Instant, kind: &Kind, reply: &Reply) {
        let texts = &self.kinds[kind].texts;
        let told = reply.resources.iter().zip(&reply.ttls);
        for (text, ttl) in told.filter(|(text, _)| texts.get(name_of(text)) == Some(*text)) {
            let key = (kind.clone(), name_of(text).to_owned());
            self.ended.remove(&key);
            match ttl {
                Some(ttl) => self.ends.insert(key, now + *ttl),
                None => self.ends.remove(&key),
            };
        }
        for beat in &reply.beats {
            let key = (kind.clone(), beat.name.clone());
            if texts.contains_key(&beat.name) {
                self.ends.insert(key, now + beat.ttl);
            }
        }
    }

    /// What the client asks for by name.
    pub(crate) fn names(&self, kind: &Kind) -> BTreeSet<String> {
        let needed_by = match *kind {
            _ if self.is_wildcard(kind) => return BTreeSet::new(),
            Kind::LISTENER => return self.wanted.clone(),
            Kind::ROUTE => Kind::LISTENER,
            Kind::CLUSTER => Kind::ROUTE,
            _ => Kind::CLUSTER,
        };
        let users = self.kinds[&needed_by].texts.values();
        users
            .flat_map(|text| needs(text))
            .map(str::to_owned)
            .collect()
    }

    /// A new stream: the first request of each kind.
    pub(crate) fn connect(&mut self) -> Vec<Request> {
        if self.protocol == Protocol::Delta {
            // It says what it has, and so what it has not.
            self.ended.clear();
        }
        self.refused.clear();
        self.asks.clear();
        // The server cannot know that the assignment was on its way when the stream broke: it takes the client's word
        // that it has it. Envoy then waits for `initial_fetch_timeout`.
        let (clusters, assignments) = (
            &self.kinds[&Kind::CLUSTER].texts,
            &self.kinds[&Kind::ENDPOINT].texts,
        );
        self.warming
            .retain(|cluster| needs(&clusters[cluster]).any(|a| !assignments.contains_key(a)));
        for held in self.kinds.values_mut() {
            held.asked.clear();
            held.nonce.clear();
            held.open = false;
            held.unknown.clear();
            held.unsaid.append(&mut held.refused_with_others);
        }
        self.ask()
    }

    /// Requests for what the client has come to need, or not to need any more.
    pub(crate) fn ask(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        // What is dropped first may be all that needs the next.
        for kind in [Kind::LISTENER, Kind::ROUTE, Kind::CLUSTER, Kind::ENDPOINT] {
            let names = self.names(&kind);
            let wildcard = self.is_wildcard(&kind);
            let held = self.kinds.get_mut(&kind).unwrap();
            if !wildcard {
                held.texts.retain(|name, _| names.contains(name));
                held.acknowledged.retain(|name| names.contains(name));
            }
            if held.open && held.asked == names || !held.open && !wildcard && names.is_empty() {
                continue;
            }
            if !wildcard {
                for name in names.difference(&held.asked) {
                    *self.asks.entry((kind.clone(), name.clone())).or_default() += 1;
                }
            }
            requests.push(held.request(&kind, self.protocol, names));
        }
        let clusters = &self.kinds[&Kind::CLUSTER].texts;
        self.warming
            .retain(|cluster| clusters.contains_key(cluster));
        self.ready.retain(|cluster| clusters.contains_key(cluster));
        let kinds = &self.kinds;
        self.ends
            .retain(|(kind, name), _| kinds[kind].texts.contains_key(name));
        requests
    }

    /// Delta: asks again for what it has, as a client does that lost it.
    pub(crate) fn ask_again(&mut self, kind: &Kind) -> Vec<Request> {
        let held = &self.kinds[kind];
        let Some(name) = held
            .asked
            .first()
            .filter(|_| self.protocol == Protocol::Delta)
        else {
            return Vec::new();
        };
        *self.asks.entry((kind.clone(), name.clone())).or_default() += 1;
        vec![Request::Delta(DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: vec![name.clone()],
            ..DeltaDiscoveryRequest::default()
        })]
    }

    /// The server's resource changed: what was refused may be there again later.
    pub(crate) fn forgive(&mut self, kind: &Kind, change: &str) {
        let name = name_of(change.trim_start_matches('-'));
        let key = (kind.clone(), name.to_owned());
        let returns = match change.starts_with('-') {
            true => !self.gone.insert(key),
            false => self.gone.remove(&key),
        };
        self.refused.retain(|(of, text), _| {
            of != kind || name_of(text) != name || (text == change && !returns)
        });
    }

    /// Takes a response, and answers.
    pub(crate) fn receive(&mut self, now: Instant, reply: &Reply) -> Vec<Request> {
        let (kind, _) = Kind::from_type_url(&reply.type_url).unwrap();
        let mut bad = Vec::new();
        for text in &reply.resources {
            self.take(&kind, text, &mut bad);
        }
        self.note_ends(now, &kind, reply);
        let present: BTreeSet<&str> = reply.resources.iter().map(|text| name_of(text)).collect();
        let held = self.kinds.get_mut(&kind).unwrap();
        let complete = self.protocol == Protocol::Sotw && kind.is_full_state();
        if !bad.is_empty() && complete {
            let told = present.iter().map(|&name| name.to_owned());
            let told = told.chain(held.texts.keys().cloned());
            held.refused_with_others.extend(told);
        }
        held.texts.retain(|name, _| {
            !reply.removed.contains(name) && (!complete || present.contains(&**name))
        });
        let removed = |name: &str| reply.removed.iter().any(|removed| removed == name);
        self.refused
            .retain(|(of, text), _| *of != kind || !removed(name_of(text)));
        held.nonce.clone_from(&reply.nonce);
        let error = (!bad.is_empty()).then(|| Status {
            code: 3,
            message: bad
                .iter()
                .map(|name| format!("{name}: no good. "))
                .collect(),
            ..Status::default()
        });
        if error.is_none() {
            held.unsaid.clear();
            held.refused_with_others.clear();
            held.version.clone_from(&reply.version);
            held.acknowledged
                .extend(present.iter().map(|&name| name.to_owned()));
        }
        held.acknowledged
            .retain(|name| held.texts.contains_key(name));
        let mut answer = vec![held.answer(&kind, self.protocol, error)];
        let follow_up = self.ask();
        if self.eager {
            // Envoy: the acknowledgement waits until other kinds have been asked for.
            answer.splice(0..0, follow_up);
        } else {
            answer.extend(follow_up);
        }
        answer
    }

    fn take(&mut self, kind: &Kind, text: &str, bad: &mut Vec<String>) {
        let name = name_of(text);
        if !self.is_wildcard(kind) && !self.kinds[kind].asked.contains(name) {
            // It was on its way when the client lost interest.
            return;
        }
        if text.contains("bad") {
            // Of several bad ones in turn, only the latest is remembered.
            self.refused
                .retain(|(of, other), _| of != kind || other == text || name_of(other) != name);
            let times = self
                .refused
                .entry((kind.clone(), text.to_owned()))
                .or_default();
            *times += 1;
            let asked = self
                .asks
                .get(&(kind.clone(), name.to_owned()))
                .copied()
                .unwrap_or(1);
            // A full state goes out again for another name's sake: before the refusal has arrived, or since leaving it
            // out might remove what the client has.
            let complete = self.protocol == Protocol::Sotw && kind.is_full_state();
            let crossed = complete
                && (self.style == Style::ByName || self.kinds[kind].unknown.contains(name));
            assert!(
                *times <= asked || crossed,
                "{text} was refused on this stream, and comes again"
            );
            let held = self.kinds.get_mut(kind).unwrap();
            if held.nonce.is_empty() && !held.version.is_empty() {
                held.unknown.insert(name.to_owned());
            }
            bad.push(name.to_owned());
            return;
        }
        self.refused
            .retain(|(of, refused), _| of != kind || name_of(refused) != name);
        let before = self
            .kinds
            .get_mut(kind)
            .unwrap()
            .texts
            .insert(name.to_owned(), text.to_owned());
        if *kind == Kind::ENDPOINT {
            let clusters = &self.kinds[&Kind::CLUSTER].texts;
            let warm = |cluster: &String| needs(&clusters[cluster]).any(|needed| needed == name);
            self.ready
                .extend(self.warming.iter().filter(|cluster| warm(cluster)).cloned());
            self.warming.retain(|cluster| !warm(cluster));
        }
        // What ended here while the client did not read, and comes with a sign of life, the server takes for there: it does
        // not send the assignment again. Envoy then waits for `initial_fetch_timeout`.
        let returns = before.is_none() && self.has_ended(kind, name);
        if *kind == Kind::CLUSTER && before.as_deref() != Some(text) && !returns {
            let set = match needs(text).next() {
                Some(_) => &mut self.warming,
                None => &mut self.ready,
            };
            set.insert(name.to_owned());
            if needs(text).next().is_none() {
                self.warming.remove(name);
            }
        }
    }
}

impl Held {
    fn request(&mut self, kind: &Kind, protocol: Protocol, names: BTreeSet<String>) -> Request {
        let before = std::mem::replace(&mut self.asked, names);
        let first = !std::mem::replace(&mut self.open, true);
        match protocol {
            Protocol::Sotw => self.sotw(kind, None),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                type_url: kind.type_url().to_owned(),
                resource_names_subscribe: self.asked.difference(&before).cloned().collect(),
                resource_names_unsubscribe: before.difference(&self.asked).cloned().collect(),
                initial_resource_versions: match first {
                    true => self.versions(),
                    false => Default::default(),
                },
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    fn answer(&self, kind: &Kind, protocol: Protocol, error: Option<Status>) -> Request {
        match protocol {
            Protocol::Sotw => self.sotw(kind, error),
            Protocol::Delta => Request::Delta(DeltaDiscoveryRequest {
                type_url: kind.type_url().to_owned(),
                response_nonce: self.nonce.clone(),
                error_detail: error,
                ..DeltaDiscoveryRequest::default()
            }),
        }
    }

    fn sotw(&self, kind: &Kind, error: Option<Status>) -> Request {
        Request::Sotw(DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: self.asked.iter().cloned().collect(),
            version_info: self.version.clone(),
            response_nonce: self.nonce.clone(),
            error_detail: error,
            ..DiscoveryRequest::default()
        })
    }

    fn versions(&self) -> std::collections::HashMap<String, String> {
        let version = |text: &String| Version::of(text.as_bytes()).to_string();
        self.texts
            .iter()
            .map(|(name, text)| (name.clone(), version(text)))
            .collect()
    }
}
