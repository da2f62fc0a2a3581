//! Replicas with the machine under test, over a model of etcd. Each replica sees the events of the store with a delay
//! of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::snapshot::Resource;
use oxds_core::time::Instant;
use oxds_etcd::rollback::{
    Decision, FleetRollback, LocalChanges, NackingNodes, ObstacleKind, Opinion, Published, Reports,
    Trial, TrialPart, Write,
};
use oxds_etcd::{BadVersion, Entry, Key, Place, Prefix, Segment, Stored};
use oxds_types::etcd::{EventType, LeaseGrantRequest, PutRequest, Request, RequestOp, TxnRequest};
use oxds_types::{ResourceType, Version};

use crate::model::Etcd;

pub(super) fn prefix() -> Prefix {
    Prefix::new("/p").expect("valid")
}

fn lane() -> Segment {
    Segment::lane("main").expect("valid")
}

pub(super) fn place() -> Place {
    Place::of_all(ResourceType::CLUSTER, "a")
}

pub(super) fn resource(content: &str) -> Arc<Resource> {
    Arc::new(Resource::new(
        ResourceType::CLUSTER,
        "a",
        content.as_bytes(),
    ))
}

/// Events of the store that a replica has seen, summed up.
#[derive(Default)]
struct Seen {
    revision: i64,
    reports: Reports,
    live: BTreeSet<Segment>,
    published: Option<Arc<Resource>>,
    head: i64,
}

impl Published for Seen {
    fn reports(&self) -> &Reports {
        &self.reports
    }

    fn replicas(&self) -> Vec<Segment> {
        self.live.iter().cloned().collect()
    }

    fn lane_of(&self, _: &Place) -> Option<Segment> {
        self.published.as_ref().map(|_| lane())
    }

    fn version(&self, _: &Segment, of: &Place) -> Option<Version> {
        let published = self.published.as_ref().filter(|_| *of == place());
        published.map(|published| Stored::version_of(published))
    }

    fn revision(&self) -> i64 {
        self.revision
    }

    fn head_revision(&self, _: &Segment) -> Option<i64> {
        (self.head > 0).then_some(self.head)
    }
}

/// Clients of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clients {
    /// None sees the place.
    Absent,
    /// All accept what they are served, until they NACK it.
    Accepting,
    /// One never answers.
    Lacking,
}

/// The rollback of the process, as far as the machine reads it: one resource.
struct Local {
    clients: Clients,
    served: Option<Arc<Resource>>,
    /// Published and former content.
    trial: Option<(Arc<Resource>, Arc<Resource>)>,
    nodes: BTreeSet<String>,
}

impl Local {
    /// The server applies what the store has.
    fn apply(&mut self, published: &Arc<Resource>, instead: Option<Arc<Resource>>) {
        let serve = instead.unwrap_or_else(|| Arc::clone(published));
        let known = self.trial.take();
        if self.served.as_ref() == Some(&serve) {
            self.trial = known.filter(|(stored, _)| *stored == serve);
            return;
        }
        // A change on top of one that was not accepted returns to the same content.
        let former = known
            .map(|(_, former)| former)
            .or_else(|| self.served.clone());
        let former = former.filter(|former| *former != serve && self.clients == Clients::Accepting);
        self.trial = former.map(|former| (Arc::clone(&serve), former));
        (self.served, self.nodes) = (Some(serve), BTreeSet::new());
    }

    fn trial(&self) -> Option<Trial> {
        let (stored, former) = self.trial.clone()?;
        Some(Trial {
            parts: vec![TrialPart {
                place: place(),
                stored: Some(stored),
                good: Some(former),
            }],
            nodes: NackingNodes::of(self.nodes.iter().map(String::as_str)),
            reason: "no".into(),
        })
    }
}

impl LocalChanges for Local {
    fn nacked(&self) -> Vec<Trial> {
        self.trial()
            .filter(|_| !self.nodes.is_empty())
            .into_iter()
            .collect()
    }

    fn opinion(&self, _: &Place, version: Version) -> Opinion {
        match (self.trial(), &self.served) {
            (Some(trial), _) if trial.first().is_some_and(|(_, of)| of == version) => {
                Opinion::Trial(trial)
            }
            (_, Some(served)) if Stored::version_of(served) == version => match self.clients {
                Clients::Absent => Opinion::NoClients,
                _ => Opinion::Lacking,
            },
            _ => Opinion::NotServed,
        }
    }
}

pub(super) struct Replica {
    machine: FleetRollback,
    seen: Seen,
    local: Local,
    lease: i64,
    /// Transactions under way.
    writes: Vec<Write>,
}

/// A store and its replicas, on a virtual clock.
pub(super) struct World {
    pub(super) etcd: Etcd,
    pub(super) replicas: BTreeMap<usize, Replica>,
    pub(super) now: Instant,
    threshold: usize,
    started: usize,
    /// Decisions that took effect.
    pub(super) decisions: usize,
}

impl World {
    pub(super) fn new(threshold: usize) -> Self {
        let mut world = Self {
            etcd: Etcd::new(1),
            replicas: BTreeMap::new(),
            now: Instant::EPOCH,
            threshold,
            started: 0,
            decisions: 0,
        };
        world.publish("0");
        world
    }

    /// Publishes a content of the one resource.
    pub(super) fn publish(&mut self, content: &str) {
        let entry = Entry::Resource(place());
        let value = Stored::of_resource(&resource(content), None);
        let put = |key: &Key, value: bytes::Bytes| RequestOp {
            request: Some(Request::Put(PutRequest {
                key: prefix().key(key),
                value,
                ..PutRequest::default()
            })),
        };
        let success = vec![
            put(&Key::Entry(lane(), entry), value.encoded().clone()),
            put(&Key::Head(lane()), "{}".into()),
        ];
        let request = TxnRequest {
            success,
            ..TxnRequest::default()
        };
        self.etcd.txn(&request).expect("published");
    }

    /// Starts a replica, which reads the store.
    pub(super) fn start(&mut self, clients: Clients) -> usize {
        let number = self.started;
        self.started += 1;
        let id = Segment::replica(&format!("r{number}")).expect("valid");
        let lease = self.etcd.grant(LeaseGrantRequest { ttl: 10, id: 0 });
        let lease = lease.expect("granted").id;
        let status = Key::Status(id.clone());
        self.etcd
            .txn(&TxnRequest {
                success: vec![RequestOp {
                    request: Some(Request::Put(PutRequest {
                        key: prefix().key(&status),
                        value: "{}".into(),
                        lease,
                        ..PutRequest::default()
                    })),
                }],
                ..TxnRequest::default()
            })
            .expect("written");
        let replica = Replica {
            machine: FleetRollback::new(prefix(), id, self.threshold),
            seen: Seen::default(),
            local: Local {
                clients,
                served: None,
                trial: None,
                nodes: BTreeSet::new(),
            },
            lease,
            writes: Vec::new(),
        };
        self.replicas.insert(number, replica);
        // A complete read shows the last state at once.
        let kvs = self.etcd.keys("/p/");
        let revision = self.etcd.revision();
        if let Some(replica) = self.replicas.get_mut(&number) {
            for kv in kvs {
                replica.observe(&kv.key, Some(&kv.value), kv.mod_revision);
            }
            replica.seen.revision = revision;
            replica.adopt();
        }
        number
    }

    /// The replica dies, and its lease ends.
    pub(super) fn kill(&mut self, number: usize) {
        if let Some(replica) = self.replicas.remove(&number) {
            self.etcd.revoke(replica.lease).expect("a lease");
        }
    }

    /// The replica sees the events of the next revision. Returns whether there is one.
    pub(super) fn deliver(&mut self, number: usize) -> bool {
        let Some(replica) = self.replicas.get_mut(&number) else {
            return false;
        };
        let next = self.etcd.events(replica.seen.revision + 1).next();
        let Some((revision, events)) = next else {
            return false;
        };
        for event in events {
            let kv = event.kv.as_ref().expect("a key");
            let value = (event.r#type() == EventType::Put).then_some(&kv.value);
            replica.observe(&kv.key, value.map(|value| &**value), revision);
        }
        replica.seen.revision = revision;
        replica.adopt();
        true
    }

    /// The replica sees all events, and its server applies only the last state.
    pub(super) fn skip(&mut self, number: usize) {
        let before = self.replicas[&number].local.served.clone();
        let trial = self.replicas[&number].local.trial.clone();
        while self.deliver(number) {}
        if let Some(replica) = self.replicas.get_mut(&number) {
            (replica.local.served, replica.local.trial) = (before, trial);
            replica.adopt();
        }
    }

    /// All clients of the replica accept what is served.
    pub(super) fn accept(&mut self, number: usize) {
        if let Some(replica) = self.replicas.get_mut(&number) {
            (replica.local.trial, replica.local.nodes) = (None, BTreeSet::new());
        }
    }

    /// One more node of the replica NACKs what is served.
    pub(super) fn nack(&mut self, number: usize) {
        let nodes = self
            .replicas
            .get(&number)
            .map(|replica| replica.local.nodes.len());
        self.nack_of(number, &format!("{number}-{}", nodes.unwrap_or_default()));
    }

    /// A node of the replica NACKs what is served.
    pub(super) fn nack_of(&mut self, number: usize, node: &str) {
        if let Some(replica) = self.replicas.get_mut(&number)
            && replica.local.trial.is_some()
        {
            replica.local.nodes.insert(node.to_owned());
        }
    }

    /// The machine of a replica looks at what it knows.
    pub(super) fn handle(&mut self, number: usize) {
        if let Some(replica) = self.replicas.get_mut(&number) {
            replica
                .machine
                .handle(self.now, &replica.seen, &replica.local);
            while let Some(write) = replica.machine.poll_write(replica.lease) {
                replica.writes.push(write);
            }
        }
    }

    /// The oldest write of a replica takes effect, or is lost.
    pub(super) fn write(&mut self, number: usize, is_lost: bool) {
        let replica = self.replicas.get_mut(&number);
        let Some(write) = replica
            .filter(|replica| !replica.writes.is_empty())
            .map(|replica| replica.writes.remove(0))
        else {
            return;
        };
        if is_lost {
            return;
        }
        let facts = self.facts();
        let answer = self.etcd.txn(&write.request).expect("a transaction");
        let is_put = matches!(write.request.success[0].request, Some(Request::Put(_)));
        if answer.succeeded && is_put && matches!(write.key, Key::Rollback(..)) {
            self.decisions += 1;
            facts.check(self.threshold, &self.decision().expect("just written"));
        }
    }

    /// All events are delivered, and all machines write, until nothing changes.
    pub(super) fn quiet(&mut self) {
        for _ in 0..100 {
            let numbers: Vec<_> = self.replicas.keys().copied().collect();
            let before = self.etcd.revision();
            for number in numbers {
                while self.deliver(number) {}
                self.handle(number);
                while !self.replicas[&number].writes.is_empty() {
                    self.write(number, false);
                }
                while self.deliver(number) {}
            }
            if self.etcd.revision() == before {
                return;
            }
        }
        panic!("the replicas write without end");
    }

    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// Returns the content that each replica serves.
    pub(super) fn served(&self) -> Vec<Option<Arc<Resource>>> {
        let replicas = self.replicas.values();
        replicas
            .map(|replica| replica.local.served.clone())
            .collect()
    }

    pub(super) fn obstacles(&self, number: usize) -> Vec<ObstacleKind> {
        let obstacles = self.replicas[&number].machine.obstacles().iter();
        obstacles.map(|obstacle| obstacle.kind.clone()).collect()
    }

    pub(super) fn timeout(&self, number: usize) -> Option<Instant> {
        self.replicas[&number].machine.poll_timeout()
    }

    pub(super) fn set_clients(&mut self, number: usize, clients: Clients) {
        if let Some(replica) = self.replicas.get_mut(&number) {
            replica.local.clients = clients;
        }
    }

    /// Returns the decision in the store, whether it applies or not.
    pub(super) fn decision(&self) -> Option<Decision> {
        let key = prefix().key(&Key::Rollback(lane(), place()));
        let keys = self.etcd.keys("/p/w/");
        let kv = keys.iter().find(|kv| kv.key == key)?;
        Some(Decision::decode(&kv.value).expect("a decision"))
    }

    /// Returns the numbers of keys of reports.
    pub(super) fn reports(&self) -> usize {
        self.etcd.keys("/p/n/").len()
    }

    fn facts(&self) -> Facts {
        let mut seen = Replica::nowhere();
        for kv in self.etcd.keys("/p/") {
            seen.observe(&kv.key, Some(&kv.value), kv.mod_revision);
        }
        Facts(seen.seen)
    }
}

/// The state of the store right before a decision.
struct Facts(Seen);

impl Facts {
    /// G-38: enough nodes, an answer of each live replica, one former version of those that have clients, and no other
    /// decision.
    fn check(&self, threshold: usize, decision: &Decision) {
        let Self(seen) = self;
        let version = decision.version_of(&place()).expect("a version");
        assert_eq!(seen.version(&lane(), &place()), Some(version), "published");
        if let Some((known, _)) = seen.reports.decision(&lane(), &place()) {
            let known = known.as_ref().expect("a decision");
            assert!(!seen.applies(&lane(), known), "there was a decision");
        }
        let bad = BadVersion {
            lane: lane(),
            place: place(),
            version,
        };
        let reports: Vec<_> = seen
            .live
            .iter()
            .map(|replica| seen.reports.report(&bad, replica).expect("an answer"))
            .collect();
        let nodes = NackingNodes::distinct(reports.iter().map(|report| &report.nodes));
        assert!(nodes > threshold as u64, "{nodes}");
        let goods = reports.iter().map(|report| report.good.to_string());
        let goods: BTreeSet<_> = goods.filter(|good| good != "none").collect();
        assert_eq!(goods.len(), 1, "{goods:?}");
        assert!(!goods.contains("lacking"));
    }
}

impl Replica {
    /// A reader of the store that is no replica.
    fn nowhere() -> Self {
        let id = Segment::replica("nowhere").expect("valid");
        Self {
            machine: FleetRollback::new(prefix(), id, 0),
            seen: Seen::default(),
            local: Local {
                clients: Clients::Absent,
                served: None,
                trial: None,
                nodes: BTreeSet::new(),
            },
            lease: 0,
            writes: Vec::new(),
        }
    }

    fn observe(&mut self, key: &[u8], value: Option<&[u8]>, revision: i64) {
        let seen = &mut self.seen;
        match (prefix().parse(key).expect("a key"), value) {
            (Key::Entry(..), Some(value)) => {
                let stored = Stored::decode(bytes::Bytes::copy_from_slice(value));
                let stored = stored.expect("a value").resource(&place());
                seen.published = Some(Arc::new(stored.expect("a resource")));
            }
            (Key::Head(_), _) => seen.head = revision,
            (Key::Status(id), Some(_)) => drop(seen.live.insert(id)),
            (Key::Status(id), None) => drop(seen.live.remove(&id)),
            (Key::Rollback(lane, place), Some(value)) => {
                seen.reports.put_decision(lane, place, value, revision);
            }
            (Key::Rollback(lane, place), None) => seen.reports.delete_decision(lane, place),
            (Key::Nack(bad, replica), value) => match value {
                Some(value) => seen.reports.put_report(bad, replica, value, revision),
                None => seen.reports.delete_report(&bad, &replica),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The server applies what the store has, with the decision.
    fn adopt(&mut self) {
        let Some(published) = self.seen.published.clone() else {
            return;
        };
        let known = self.seen.reports.decision(&lane(), &place());
        let known = known.and_then(|(decision, _)| decision.as_ref().ok());
        let applying = known.filter(|decision| self.seen.applies(&lane(), decision));
        let instead = applying.and_then(|decision| decision.parts[0].good.clone());
        self.local.apply(&published, instead);
    }
}
