//! Reads the history of a lane as a replica does, from the model alone.

use std::collections::BTreeMap;

use oxds_etcd::{Digest, Head, Key, PublishId, Segment, Staged, Stored};
use oxds_types::etcd::RangeRequest;

use super::rig::{State, prefix};
use crate::model::Etcd;

/// Returns head and state of a lane at a revision, the stage that the head names applied. Checks that the head vouches
/// for it.
pub(crate) fn served(etcd: &Etcd, lane: &Segment, revision: i64) -> Option<(Head, State)> {
    let (head, state) = read(etcd, lane, revision);
    let head = head?;
    let mut digest = Digest::default();
    for (entry, stored) in &state {
        digest.add(entry, &stored.digest_version());
    }
    assert_eq!(
        digest, head.digest,
        "no head vouches for the state at revision {revision}"
    );
    Some((head, state))
}

fn read(etcd: &Etcd, lane: &Segment, revision: i64) -> (Option<Head>, State) {
    let request = RangeRequest {
        revision,
        ..prefix().lane(lane).request()
    };
    let (mut head, mut state, mut staged) = (None, State::new(), BTreeMap::new());
    for kv in etcd.range(&request).expect("not compacted").kvs {
        match prefix().parse(&kv.key).expect("a key of the layout") {
            Key::Head(_) => head = Some(Head::decode(&kv.value).expect("a head")),
            Key::Entry(_, entry) => {
                state.insert(entry, Stored::decode(kv.value).expect("a value"));
            }
            Key::Staged(_, id, entry) => {
                staged.insert(
                    (id, entry),
                    Staged::decode(kv.value).expect("a staged value"),
                );
            }
            _ => {}
        }
    }
    let named = head.as_ref().and_then(|head| head.staged);
    for ((id, entry), staged) in staged {
        match staged {
            _ if Some(id) != named => {}
            Staged::Put(stored) => drop(state.insert(entry, stored)),
            Staged::Removal => drop(state.remove(&entry)),
        }
    }
    (head, state)
}

/// Returns what is served at the latest revision.
pub(super) fn latest(etcd: &Etcd, lane: &Segment) -> (Head, State) {
    served(etcd, lane, etcd.revision()).expect("a head")
}

/// One publish of the chain.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) publish: PublishId,
    pub(super) seq: u64,
    pub(super) state: State,
}

/// Returns all publishes of a lane. Checks every revision: the head vouches for the state, each publish is the child of
/// the one before, and nothing but a publish changes what is served.
pub(super) fn chain(etcd: &Etcd, lane: &Segment) -> Vec<Link> {
    let mut chain: Vec<Link> = Vec::new();
    for (revision, _) in etcd.events(1) {
        let Some((head, state)) = served(etcd, lane, revision) else {
            continue;
        };
        match chain.last() {
            Some(last) if last.publish == head.publish => {
                assert!(
                    last.state == state,
                    "the state changed without a publish at revision {revision}"
                );
                continue;
            }
            Some(last) => {
                assert_eq!((head.parent, head.seq), (Some(last.publish), last.seq + 1));
            }
            None => assert_eq!((head.parent, head.seq), (None, 1)),
        }
        let Head { publish, seq, .. } = head;
        chain.push(Link {
            publish,
            seq,
            state,
        });
    }
    chain
}

/// Returns the number of keys of stages.
pub(super) fn staged_keys(etcd: &Etcd) -> usize {
    let keys = etcd.keys(prefix().as_str());
    let is_staged =
        |key: &[u8]| matches!(prefix().parse(key), Ok(Key::Staged(..) | Key::Alive(..)));
    keys.iter().filter(|kv| is_staged(&kv.key)).count()
}
