//! Writer of publishes: one transaction, or a stage with its moves step by step. It records every published state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_etcd::{Digest, Entry, Head, Key, Place, Prefix, PublishId, Segment, Stored};
use oxds_types::etcd::{DeleteRangeRequest, PutRequest, Request, RequestOp, TxnRequest};
use oxds_types::{Glob, ResourceType, Version};
use prost::Message as _;

use crate::model::Etcd;

/// State of a lane: the version of each entry.
pub(super) type State = BTreeMap<Entry, Version>;

pub(super) fn prefix() -> Prefix {
    Prefix::new("/oxds/default").unwrap()
}

pub(super) fn lane(name: &str) -> Segment {
    Segment::lane(name).unwrap()
}

/// A key as it is in etcd.
pub(super) fn key(key: &Key) -> String {
    format!("{}{key}", prefix())
}

/// Entry of a cluster: `a` for all nodes, `edge:a` in a group, `edge:` for the matcher of the group.
pub(super) fn entry(text: &str) -> Entry {
    match text.split_once(':') {
        None => Place::of_all(ResourceType::CLUSTER, text).into(),
        Some((group, "")) => Entry::Matcher(Segment::group(group).unwrap()),
        Some((group, name)) => {
            let group = Segment::group(group).unwrap();
            Place::of_group(group, ResourceType::CLUSTER, name).into()
        }
    }
}

/// Value of an entry. Equal contents have equal versions.
pub(super) fn stored(entry: &Entry, content: usize) -> Stored {
    match entry {
        Entry::Resource(place) => {
            let cluster = Cluster {
                name: place.name.to_string(),
                alt_stat_name: "x".repeat(content),
                ..Cluster::default()
            };
            let resource = Resource::new(
                ResourceType::CLUSTER,
                Arc::clone(&place.name),
                &cluster.encode_to_vec(),
            );
            Stored::of_resource(&resource, None)
        }
        Entry::Matcher(_) => {
            let matcher = NodeMatcher {
                id: Some(Glob::new(&format!("{content}-*"))),
                ..NodeMatcher::default()
            };
            Stored::of_matcher(&matcher, None)
        }
    }
}

/// Writer of one lane.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) lane: Segment,
    pub(super) state: State,
    pub(super) head: Option<Head>,
    digest: Digest,
    /// Moves of a stage that were not done yet, and deletions of staged keys.
    moves: Vec<RequestOp>,
    last_id: u128,
    /// Greatest seq that the lane ever had, in any history.
    greatest_seq: u64,
    /// State of every publish.
    pub(super) published: BTreeMap<PublishId, State>,
}

/// Change of an entry: `None` removes it.
pub(super) type Change<'a> = (&'a str, Option<usize>);

impl Writer {
    pub(super) fn new(name: &str) -> Self {
        Self {
            lane: lane(name),
            state: State::new(),
            head: None,
            digest: Digest::default(),
            moves: Vec::new(),
            last_id: u128::from(name.len() as u64) << 64,
            greatest_seq: 0,
            published: BTreeMap::new(),
        }
    }

    /// Publishes changes in one transaction.
    pub(super) fn publish(&mut self, etcd: &mut Etcd, changes: &[Change<'_>]) {
        let mut operations = self.apply(changes);
        let head = self.next_head(None);
        operations.push(self.put_head(&head));
        commit(etcd, &operations);
    }

    /// Publishes changes by a stage: the transaction with the head. The moves follow by [`move_one`](Self::move_one).
    pub(super) fn stage(&mut self, etcd: &mut Etcd, changes: &[Change<'_>]) {
        self.write_stage(etcd, changes);
        self.commit_stage(etcd);
    }

    /// Writes the keys of a stage that no head names yet.
    pub(super) fn write_stage(&mut self, etcd: &mut Etcd, changes: &[Change<'_>]) {
        let operations = self.apply(changes);
        let head = self.next_head(Some(()));
        let id = head.publish;
        let (mut staged, mut longest) = (Vec::new(), 0);
        for operation in operations {
            let (entry_key, value) = match operation.request.clone().unwrap() {
                Request::Put(put) => (put.key, put.value),
                Request::DeleteRange(delete) => (delete.key, Bytes::new()),
                _ => unreachable!("the operations of a publish"),
            };
            longest = longest.max(value.len());
            let Ok(Key::Entry(lane, entry)) = prefix().parse(&entry_key) else {
                unreachable!("the keys of a publish")
            };
            let staged_key = prefix().key(&Key::Staged(lane, id, entry));
            staged.push(put(staged_key.clone(), value));
            self.moves.push(operation);
            self.moves.push(delete(staged_key));
        }
        // As many as etcd takes in a request.
        for batch in staged.chunks(if longest > 10_000 { 1 } else { 100 }) {
            commit(etcd, batch);
        }
    }

    /// Sets the head that names the stage.
    pub(super) fn commit_stage(&self, etcd: &mut Etcd) {
        let head = self.put_head(self.head.as_ref().unwrap());
        commit(etcd, &[head]);
    }

    /// Moves one staged key to its place; after the last one, the head names no stage any more. Returns whether more is
    /// to do.
    pub(super) fn move_one(&mut self, etcd: &mut Etcd) -> bool {
        if self.moves.is_empty() {
            return false;
        }
        let mut operations: Vec<_> = self.moves.drain(..2).collect();
        if self.moves.is_empty() {
            let mut head = self.head.clone().unwrap();
            head.staged = None;
            self.head = Some(head.clone());
            operations.push(self.put_head(&head));
        }
        commit(etcd, &operations);
        !self.moves.is_empty()
    }

    pub(super) fn finish(&mut self, etcd: &mut Etcd) {
        while self.move_one(etcd) {}
    }

    pub(super) fn seq(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.seq)
    }

    /// Begins again from what a restored etcd has, as the next writer does.
    pub(super) fn rewind(&mut self, to: &Writer) {
        let published = std::mem::take(&mut self.published);
        let (last_id, greatest_seq) = (self.last_id, self.greatest_seq);
        *self = to.clone();
        self.published = published;
        (self.last_id, self.greatest_seq) = (last_id, greatest_seq);
    }

    /// Writes the head again with a greater seq, as `--accept-restored` does.
    pub(super) fn accept_restored(&mut self, etcd: &mut Etcd, floor: u64) {
        let mut head = self.next_head(None);
        head.seq = head.seq.max(floor + 1);
        self.head = Some(head.clone());
        let head = self.put_head(&head);
        commit(etcd, &[head]);
    }

    /// Changes a key without a publish.
    pub(super) fn tamper(&self, etcd: &mut Etcd, name: &str, content: Option<usize>) {
        let entry = entry(name);
        let entry_key = key(&Key::Entry(self.lane.clone(), entry.clone()));
        match content {
            Some(content) => etcd.put(&entry_key, stored(&entry, content).encoded().clone()),
            None => etcd.delete(&entry_key),
        };
    }

    /// Restores all published values, and publishes these changes with a seq that no head of the lane had, as
    /// `--repair` and `--accept-restored` do.
    pub(super) fn repair(&mut self, etcd: &mut Etcd, changes: &[Change<'_>]) {
        let mut operations = self.apply(changes);
        let changed: BTreeSet<_> = changes.iter().map(|(text, _)| entry(text)).collect();
        let lane_key = key(&Key::Head(self.lane.clone())).replace("/head", "/");
        let found = etcd.keys(&lane_key).into_iter();
        let found = found.filter_map(|kv| match prefix().parse(&kv.key) {
            Ok(Key::Entry(_, entry)) => Some(entry),
            _ => None,
        });
        let all: BTreeSet<_> = found.chain(self.state.keys().cloned()).collect();
        for entry in all.difference(&changed) {
            let entry_key = prefix().key(&Key::Entry(self.lane.clone(), entry.clone()));
            operations.push(match self.state.get(entry) {
                Some(version) => put(entry_key, value(entry, *version)),
                None => delete(entry_key),
            });
        }
        let mut head = self.next_head(None);
        head.seq = head.seq.max(self.greatest_seq + 1);
        self.greatest_seq = head.seq;
        self.head = Some(head.clone());
        operations.push(self.put_head(&head));
        commit(etcd, &operations);
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<RequestOp> {
        let mut operations = Vec::new();
        for (text, content) in changes {
            let entry = entry(text);
            let entry_key = prefix().key(&Key::Entry(self.lane.clone(), entry.clone()));
            let value = content.map(|content| stored(&entry, content));
            operations.push(match &value {
                Some(value) => put(entry_key, value.encoded().clone()),
                None => delete(entry_key),
            });
            let version = value.map(|value| value.digest_version());
            let before = match version {
                Some(version) => self.state.insert(entry.clone(), version),
                None => self.state.remove(&entry),
            };
            self.digest
                .replace(&entry, before.as_ref(), version.as_ref());
        }
        operations
    }

    fn next_head(&mut self, staged: Option<()>) -> Head {
        self.last_id += 1;
        let id = PublishId(self.last_id);
        let parent = self.head.as_ref().map(|head| head.publish);
        let mut head = Head::new(id, parent, self.seq() + 1, self.digest);
        head.staged = staged.map(|()| id);
        self.published.insert(id, self.state.clone());
        self.greatest_seq = self.greatest_seq.max(head.seq);
        self.head = Some(head.clone());
        head
    }

    fn put_head(&self, head: &Head) -> RequestOp {
        put(
            prefix().key(&Key::Head(self.lane.clone())),
            head.encode().into(),
        )
    }
}

fn put(key: Bytes, value: Bytes) -> RequestOp {
    let put = PutRequest {
        key,
        value,
        ..PutRequest::default()
    };
    RequestOp {
        request: Some(Request::Put(put)),
    }
}

fn delete(key: Bytes) -> RequestOp {
    let delete = DeleteRangeRequest {
        key,
        range_end: Bytes::new(),
    };
    RequestOp {
        request: Some(Request::DeleteRange(delete)),
    }
}

/// Returns the value of an entry with this version.
fn value(entry: &Entry, version: Version) -> Bytes {
    let mut values = (0..10).map(|content| stored(entry, content));
    let value = values.find(|value| value.digest_version() == version);
    value.expect("a published version").encoded().clone()
}

/// Does all operations at one revision: nested, because a level has at most 128.
fn commit(etcd: &mut Etcd, operations: &[RequestOp]) {
    let nested = operations.chunks(60).map(|chunk| RequestOp {
        request: Some(Request::Txn(TxnRequest {
            success: chunk.to_vec(),
            ..TxnRequest::default()
        })),
    });
    let request = TxnRequest {
        success: nested.collect(),
        ..TxnRequest::default()
    };
    etcd.txn(&request).expect("a transaction within the limits");
}
