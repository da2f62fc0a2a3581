//! Model client: the behaviour of a data plane, as short as possible.
//!
//! The text of a resource is `name=content` or `name=content>needed,needed`: a listener refers to routes, a route to
//! clusters, a cluster to an assignment; clusters and listeners refer to secrets (`S0`, `S1`, …) besides. The client
//! NACKs content with `bad` or `broken`, see [`Rejects`].

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::google::rpc::Status;
use oxds_core::{session::Request, snapshot::Protocol, time::Instant};
use oxds_types::{ResourceType, discovery::DeltaDiscoveryRequest};

use super::{
    model_type::ModelType,
    stream::{Reply, name_of},
    world::{needs, secrets},
};

pub(crate) const TYPES: [ResourceType; 5] = [
    ResourceType::CLUSTER,
    ResourceType::ENDPOINT,
    ResourceType::LISTENER,
    ResourceType::ROUTE,
    ResourceType::SECRET,
];

/// Subscriptions of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Wildcards for clusters and listeners, the rest by the names that those refer to.
    Envoy,
    /// Some listeners, the rest by the names that those refer to (gRPC).
    ByName,
}

/// How a client rejects a response with invalid resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejects {
    /// As gRPC does (A46): it applies the valid resources, and names the invalid ones.
    ByName,
    /// As Envoy does. A resource that does not decode (content `broken`) rejects the whole response, without a name.
    /// Of the others (content `bad`), CDS and LDS reject only those, by name; for the other types the response is
    /// applied in an order that is not defined up to the first invalid resource, and removals are not reached.
    AsEnvoy,
}

/// How often content may be sent that is NACKed without a name. Of four resources each may be invalid, and three rounds
/// find one.
const MOST_UNNAMED: usize = 16;

/// Whether a client rejects this content.
pub(crate) fn is_invalid(text: &str) -> bool {
    text.contains("bad") || text.contains("broken")
}

/// The part of a response that a client applies.
struct Applied {
    /// Resources up to the first invalid one, where the client stops there.
    resources: Vec<String>,
    /// The client stops before the removals.
    stops: bool,
    /// The NACK names no resource.
    hides_name: bool,
}

/// Model client. Its resources outlive its streams.
#[derive(Debug)]
pub(crate) struct Model {
    style: Style,
    pub(crate) rejects: Rejects,
    protocol: Protocol,
    /// By name: listeners that the application uses.
    pub(crate) wanted: BTreeSet<String>,
    resource_types: BTreeMap<ResourceType, ModelType>,
    /// New and changed clusters that wait for their assignment. Their secrets are not requested before.
    pub(crate) warming: BTreeSet<String>,
    /// Clusters that were ready once: while a new version warms, the old one serves.
    pub(crate) ready: BTreeSet<String>,
    /// Content that was NACKed on this stream, and how often: it must not be sent again, unless the client subscribes
    /// again.
    nacked: BTreeMap<(ResourceType, String), usize>,
    /// Of that, content in responses with other resources that were NACKed without a name, and how often: it may be
    /// sent again as often, in parts of the response.
    unnamed: BTreeMap<(ResourceType, String), usize>,
    /// Names that the server has removed: content that returns may be NACKed again, even if the NACK of its first
    /// version arrived after the removal.
    gone: BTreeSet<(ResourceType, String)>,
    /// How often a name was subscribed on this stream.
    asks: BTreeMap<(ResourceType, String), usize>,
    /// Whether requests are sent before the ACK of the response that caused them.
    pub(crate) eager: bool,
    /// When resources with a TTL expire, unless they are confirmed.
    ends: BTreeMap<(ResourceType, String), Instant>,
    /// Names that expired, and were not sent again since.
    ended: BTreeSet<(ResourceType, String)>,
}

impl Model {
    pub(crate) fn new(style: Style, protocol: Protocol) -> Self {
        Self {
            style,
            rejects: Rejects::ByName,
            protocol,
            wanted: BTreeSet::new(),
            resource_types: TYPES
                .into_iter()
                .map(|resource_type| (resource_type, ModelType::default()))
                .collect(),
            warming: BTreeSet::new(),
            ready: BTreeSet::new(),
            nacked: BTreeMap::new(),
            unnamed: BTreeMap::new(),
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
    pub(crate) fn texts(&self, resource_type: &ResourceType) -> &BTreeMap<String, String> {
        &self.resource_types[resource_type].texts
    }

    /// Whether the client has been subscribed to this name since the stream began. A name that it unsubscribed from
    /// and subscribed to again may be missing from a response that was in flight at that time.
    pub(crate) fn asks_steadily(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.asks
            .get(&(resource_type.clone(), name.to_owned()))
            .is_none_or(|&times| times == 1)
    }

    /// Names that the client ACKed.
    pub(crate) fn acknowledged(&self, resource_type: &ResourceType) -> &BTreeSet<String> {
        &self.resource_types[resource_type].acknowledged
    }

    /// Whether the client has a wildcard subscription to the type.
    pub(crate) fn is_wildcard(&self, resource_type: &ResourceType) -> bool {
        self.style == Style::Envoy && resource_type.all_resources_required_in_sotw()
    }

    /// SotW: the version that the client reports on a new stream.
    pub(crate) fn version(&self, resource_type: &ResourceType) -> &str {
        &self.resource_types[resource_type].version
    }

    /// Whether the server can neither send the type whole, nor leave NACKed content out.
    pub(crate) fn is_stuck(&self, resource_type: &ResourceType) -> bool {
        self.rejects == Rejects::AsEnvoy
            && self.is_sotw()
            && resource_type.all_resources_required_in_sotw()
            && self.resource_types[resource_type].is_stuck
    }

    /// Whether the version that the client reports on a new stream does not cover this name.
    pub(crate) fn is_unreported(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.resource_types[resource_type].unreported.contains(name)
    }

    /// Whether the resource expired at the client, which the server need not know.
    pub(crate) fn has_ended(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.ended
            .contains(&(resource_type.clone(), name.to_owned()))
    }

    /// When the next resource expires.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.ends.values().min().copied()
    }

    /// Removes the resources that expire now, and returns their texts.
    pub(crate) fn end(&mut self, now: Instant) -> Vec<(ResourceType, String)> {
        let due = self.ends.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due.map(|(key, _)| key.clone()).collect();
        let mut texts = Vec::new();
        for (resource_type, name) in due {
            self.ends.remove(&(resource_type.clone(), name.clone()));
            if let Some(held) = self.resource_types.get_mut(&resource_type) {
                held.acknowledged.remove(&name);
                texts.extend(
                    held.texts
                        .remove(&name)
                        .map(|text| (resource_type.clone(), text)),
                );
            }
            self.warming.remove(&name);
            self.ready.remove(&name);
            self.ended.insert((resource_type, name));
        }
        texts
    }

    /// Applies the TTLs and heartbeats of a response.
    fn note_ends(&mut self, now: Instant, resource_type: &ResourceType, reply: &Reply) {
        let texts = &self.resource_types[resource_type].texts;
        let told = reply.resources.iter().zip(&reply.ttls);
        for (text, ttl) in told.filter(|(text, _)| texts.get(name_of(text)) == Some(*text)) {
            let key = (resource_type.clone(), name_of(text).to_owned());
            self.ended.remove(&key);
            match ttl {
                Some(ttl) => self.ends.insert(key, now + *ttl),
                None => self.ends.remove(&key),
            };
        }
        for beat in &reply.beats {
            let key = (resource_type.clone(), beat.name.clone());
            if texts.contains_key(&beat.name) {
                self.ends.insert(key, now + beat.ttl);
            }
        }
    }

    /// Names that the client needs.
    pub(crate) fn names(&self, resource_type: &ResourceType) -> BTreeSet<String> {
        let needed_by = match *resource_type {
            _ if self.is_wildcard(resource_type) => return BTreeSet::new(),
            ResourceType::LISTENER => return self.wanted.clone(),
            ResourceType::SECRET => return self.secrets(),
            ResourceType::ROUTE => ResourceType::LISTENER,
            ResourceType::CLUSTER => ResourceType::ROUTE,
            _ => ResourceType::CLUSTER,
        };
        let users = self.resource_types[&needed_by].texts.values();
        users
            .flat_map(|text| needs(text))
            .map(str::to_owned)
            .collect()
    }

    /// Secrets that the client needs: those of listeners, and those of clusters that have their assignment, as Envoy
    /// requests them.
    fn secrets(&self) -> BTreeSet<String> {
        let assignments = &self.resource_types[&ResourceType::ENDPOINT].texts;
        let clusters = self.resource_types[&ResourceType::CLUSTER].texts.values();
        let clusters = clusters
            .filter(|text| needs(text).all(|assignment| assignments.contains_key(assignment)));
        let listeners = self.resource_types[&ResourceType::LISTENER].texts.values();
        let users = clusters.chain(listeners);
        users
            .flat_map(|text| secrets(text))
            .map(str::to_owned)
            .collect()
    }

    /// Records the clusters that have all they need.
    fn note_ready(&mut self) {
        let has = |resource_type: &ResourceType, name: &str| {
            self.resource_types[resource_type].texts.contains_key(name)
        };
        let clusters = self.resource_types[&ResourceType::CLUSTER].texts.iter();
        let clusters = clusters.filter(|(name, text)| {
            let mut secrets = secrets(text);
            !self.warming.contains(*name) && secrets.all(|one| has(&ResourceType::SECRET, one))
        });
        let ready: Vec<String> = clusters.map(|(name, _)| name.clone()).collect();
        self.ready.extend(ready);
    }

    /// Starts a new stream with the first request of each type.
    pub(crate) fn connect(&mut self) -> Vec<Request> {
        if self.protocol == Protocol::Delta {
            // It reports all resources that it has.
            self.ended.clear();
        }
        self.nacked.clear();
        self.unnamed.clear();
        self.asks.clear();
        // The server cannot know that the assignment was in flight when the stream broke: the client reports that it
        // has it. Envoy then waits for `initial_fetch_timeout`.
        let (clusters, assignments) = (
            &self.resource_types[&ResourceType::CLUSTER].texts,
            &self.resource_types[&ResourceType::ENDPOINT].texts,
        );
        self.warming
            .retain(|cluster| needs(&clusters[cluster]).any(|a| !assignments.contains_key(a)));
        for held in self.resource_types.values_mut() {
            held.asked.clear();
            held.nonce.clear();
            held.open = false;
            held.unknown.clear();
            held.is_stuck = !held.version.is_empty();
            held.unreported.append(&mut held.nacked_with_others);
        }
        self.ask()
    }

    /// Requests for changes of the names that the client needs.
    pub(crate) fn ask(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        // In this order, as a dropped listener may be the only user of a route, and so on.
        for resource_type in [
            ResourceType::LISTENER,
            ResourceType::ROUTE,
            ResourceType::CLUSTER,
            ResourceType::ENDPOINT,
            ResourceType::SECRET,
        ] {
            let names = self.names(&resource_type);
            let wildcard = self.is_wildcard(&resource_type);
            let held = self.resource_types.get_mut(&resource_type).unwrap();
            if !wildcard {
                held.texts.retain(|name, _| names.contains(name));
                held.acknowledged.retain(|name| names.contains(name));
            }
            if held.open && held.asked == names || !held.open && !wildcard && names.is_empty() {
                continue;
            }
            if !wildcard {
                for name in names.difference(&held.asked) {
                    *self
                        .asks
                        .entry((resource_type.clone(), name.clone()))
                        .or_default() += 1;
                }
            }
            requests.push(held.request(&resource_type, self.protocol, names));
        }
        let clusters = &self.resource_types[&ResourceType::CLUSTER].texts;
        self.warming
            .retain(|cluster| clusters.contains_key(cluster));
        self.ready.retain(|cluster| clusters.contains_key(cluster));
        let resource_types = &self.resource_types;
        self.ends.retain(|(resource_type, name), _| {
            resource_types[resource_type].texts.contains_key(name)
        });
        requests
    }

    /// Delta: subscribes again to a name, as a client does that lost the resource.
    pub(crate) fn ask_again(&mut self, resource_type: &ResourceType) -> Vec<Request> {
        let held = &self.resource_types[resource_type];
        let Some(name) = held
            .asked
            .first()
            .filter(|_| self.protocol == Protocol::Delta)
        else {
            return Vec::new();
        };
        *self
            .asks
            .entry((resource_type.clone(), name.clone()))
            .or_default() += 1;
        vec![Request::Delta(DeltaDiscoveryRequest {
            type_url: resource_type.type_url().to_owned(),
            resource_names_subscribe: vec![name.clone()],
            ..DeltaDiscoveryRequest::default()
        })]
    }

    /// A resource changed at the server: content that was NACKed may be sent again later.
    pub(crate) fn forgive(&mut self, resource_type: &ResourceType, change: &str) {
        let name = name_of(change.trim_start_matches('-'));
        let key = (resource_type.clone(), name.to_owned());
        let returns = if change.starts_with('-') {
            !self.gone.insert(key)
        } else {
            self.gone.remove(&key)
        };
        self.nacked.retain(|(of, text), _| {
            of != resource_type || name_of(text) != name || (text == change && !returns)
        });
    }

    /// Applies a response and returns the answer, with requests that follow from it.
    pub(crate) fn receive(&mut self, now: Instant, reply: &Reply) -> Vec<Request> {
        let (resource_type, _) = ResourceType::from_type_url(&reply.type_url).unwrap();
        let applied = self.applied(&resource_type, reply);
        let mut bad = Vec::new();
        for text in &applied.resources {
            self.take(&resource_type, text, &mut bad);
        }
        if applied.hides_name {
            bad = vec!["one of the resources".to_owned()];
            for text in &reply.resources {
                self.note_latest(&resource_type, text);
            }
            self.note_unnamed(&resource_type, reply);
        }
        self.note_ready();
        self.note_ends(now, &resource_type, reply);
        let present: BTreeSet<&str> = reply.resources.iter().map(|text| name_of(text)).collect();
        let held = self.resource_types.get_mut(&resource_type).unwrap();
        let complete =
            self.protocol == Protocol::Sotw && resource_type.all_resources_required_in_sotw();
        if !bad.is_empty() && complete {
            let told = present.iter().map(|&name| name.to_owned());
            let told = told.chain(held.texts.keys().cloned());
            held.nacked_with_others.extend(told);
        }
        held.texts.retain(|name, _| {
            let is_removed = reply.removed.contains(name) || complete && !present.contains(&**name);
            !is_removed || applied.stops
        });
        let removed = |name: &str| reply.removed.iter().any(|removed| removed == name);
        self.nacked
            .retain(|(of, text), _| *of != resource_type || !removed(name_of(text)));
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
            held.is_stuck = false;
            held.unreported.clear();
            held.nacked_with_others.clear();
            held.version.clone_from(&reply.version);
            held.acknowledged
                .extend(present.iter().map(|&name| name.to_owned()));
        }
        held.acknowledged
            .retain(|name| held.texts.contains_key(name));
        let mut answer = vec![held.answer(&resource_type, self.protocol, error)];
        let follow_up = self.ask();
        if self.eager {
            // Envoy: the ACK waits until the requests for other types were sent.
            answer.splice(0..0, follow_up);
        } else {
            answer.extend(follow_up);
        }
        answer
    }

    /// Of several NACKed contents of a name, only the latest counts.
    fn note_latest(&mut self, resource_type: &ResourceType, text: &str) {
        self.nacked.retain(|(of, other), _| {
            of != resource_type || other == text || name_of(other) != name_of(text)
        });
    }

    /// A response is NACKed without a name.
    fn note_unnamed(&mut self, resource_type: &ResourceType, reply: &Reply) {
        if reply.resources.len() == 1 {
            return;
        }
        for text in reply.resources.iter().filter(|text| is_invalid(text)) {
            let key = (resource_type.clone(), text.clone());
            let times = self.unnamed.entry(key).or_default();
            *times += 1;
            assert!(*times <= MOST_UNNAMED, "{text} is sent without end");
        }
    }

    /// The part of a response that the client looks at before it stops.
    fn applied(&self, resource_type: &ResourceType, reply: &Reply) -> Applied {
        let mut resources = reply.resources.clone();
        let (mut stops, mut hides_name) = (false, false);
        if self.rejects == Rejects::AsEnvoy {
            let applies_valid = resource_type.all_resources_required_in_sotw();
            // A resource that was in flight when the client unsubscribed reaches no watch.
            let asked = |text: &str| self.is_asked(resource_type, name_of(text));
            let throws = |text: &String| is_invalid(text) && asked(text);
            let is_odd = reply.nonce.ends_with(['1', '3', '5', '7', '9']);
            if resources.iter().any(|text| text.contains("broken")) {
                resources.clear();
                (stops, hides_name) = (true, true);
            } else if !applies_valid && resources.iter().any(throws) {
                // Which resources come first is not defined.
                if is_odd {
                    resources.reverse();
                }
                let first = resources.iter().position(throws);
                resources.truncate(first.map_or(0, |first| first + 1));
                (stops, hides_name) = (true, reply.resources.len().is_multiple_of(2));
            }
        }
        Applied {
            resources,
            stops,
            hides_name,
        }
    }

    /// Whether the client is subscribed to this name now.
    fn is_asked(&self, resource_type: &ResourceType, name: &str) -> bool {
        self.is_wildcard(resource_type) || self.resource_types[resource_type].asked.contains(name)
    }

    fn take(&mut self, resource_type: &ResourceType, text: &str, bad: &mut Vec<String>) {
        let name = name_of(text);
        if !self.is_asked(resource_type, name) {
            // It was in flight when the client unsubscribed.
            return;
        }
        if is_invalid(text) {
            self.note_latest(resource_type, text);
            let times = self
                .nacked
                .entry((resource_type.clone(), text.to_owned()))
                .or_default();
            *times += 1;
            let asked = self
                .asks
                .get(&(resource_type.clone(), name.to_owned()))
                .copied()
                .unwrap_or(1);
            // A full state is sent again for another name: before the NACK arrived, or since leaving the name out
            // might remove the copy of the client.
            let complete =
                self.protocol == Protocol::Sotw && resource_type.all_resources_required_in_sotw();
            let crossed = complete
                && (self.style == Style::ByName
                    || self.resource_types[resource_type].unknown.contains(name));
            let unnamed = self.unnamed.get(&(resource_type.clone(), text.to_owned()));
            assert!(
                *times <= asked + unnamed.unwrap_or(&0) || crossed,
                "{text} was NACKed on this stream, and is sent again"
            );
            let held = self.resource_types.get_mut(resource_type).unwrap();
            if held.is_stuck {
                held.unknown.insert(name.to_owned());
            }
            bad.push(name.to_owned());
            return;
        }
        self.nacked
            .retain(|(of, nacked), _| of != resource_type || name_of(nacked) != name);
        let held = self.resource_types.get_mut(resource_type).unwrap();
        let before = held.texts.insert(name.to_owned(), text.to_owned());
        if *resource_type == ResourceType::ENDPOINT {
            let clusters = &self.resource_types[&ResourceType::CLUSTER].texts;
            let warm = |cluster: &String| needs(&clusters[cluster]).any(|needed| needed == name);
            self.warming.retain(|cluster| !warm(cluster));
        }
        // A resource that expired while the client did not read, and is sent again, the server takes for present: it
        // does not send the assignment again. Envoy then waits for `initial_fetch_timeout`.
        let returns = before.is_none() && self.has_ended(resource_type, name);
        if *resource_type == ResourceType::CLUSTER && before.as_deref() != Some(text) && !returns {
            match needs(text).next() {
                Some(_) => self.warming.insert(name.to_owned()),
                None => self.warming.remove(name),
            };
        }
    }
}
