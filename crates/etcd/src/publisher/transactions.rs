//! Transactions of a publish, within etcd's limits.
//!
//! A transaction may have 128 operations. What the outer level has is subtracted for nested ones, so 64 × 64 operations
//! are the most that two levels hold (measured with etcd 3.4.23 and 3.7.3).

use bytes::Bytes;
use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, PutRequest, Request,
    RequestOp, TxnRequest,
};
use prost::Message;

use super::plan::Write;
use crate::format::FORMAT;
use crate::keys::{Key, KeyRange};
use crate::lane_state::SeenHead;
use crate::names::{Prefix, PublishId, Segment};

/// Operations of a transaction without nested ones.
const FLAT: usize = 128;
/// Operations of each of two levels.
const NESTED: usize = 64;
/// Operations beside the head.
pub(super) const MAX_OPERATIONS: usize = (NESTED - 1) * NESTED;
/// Bytes that etcd adds to a request before it compares the size: ids and the name of the user.
const ETCD_OVERHEAD: usize = 512;
/// Bytes for the tags and lengths of an operation and its share of the nested transaction.
const OPERATION_OVERHEAD: usize = 12;

/// Keys of one lane.
#[derive(Debug, Clone)]
pub(super) struct LaneKeys {
    pub(super) prefix: Prefix,
    pub(super) lane: Segment,
}

impl LaneKeys {
    pub(super) fn head(&self) -> Bytes {
        self.prefix.key(&Key::Head(self.lane.clone()))
    }

    pub(super) fn alive(&self, id: PublishId) -> Bytes {
        self.prefix.key(&Key::Alive(self.lane.clone(), id))
    }

    pub(super) fn stage(&self, id: PublishId) -> KeyRange {
        self.prefix.stage(&self.lane, id)
    }

    /// Returns the key of an entry; `rest` is the part below the lane.
    pub(super) fn place(&self, rest: &[u8]) -> Bytes {
        [&self.prefix.lane(&self.lane).start[..], rest]
            .concat()
            .into()
    }

    /// Returns the key of a staged entry.
    pub(super) fn staged(&self, id: PublishId, rest: &[u8]) -> Bytes {
        [&self.stage(id).start[..], rest].concat().into()
    }
}

/// Returns the condition that a key was not changed since this revision; 0 for a key that does not exist.
pub(super) fn unchanged(key: Bytes, mod_revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key,
        value: Some(CompareValue::ModRevision(mod_revision)),
        range_end: Bytes::new(),
    }
}

pub(super) fn put(key: Bytes, value: Bytes, lease: i64) -> RequestOp {
    let put = PutRequest {
        key,
        value,
        lease,
        ignore_value: false,
    };
    RequestOp {
        request: Some(Request::Put(put)),
    }
}

fn delete(key: Bytes) -> RequestOp {
    delete_range(KeyRange {
        start: key,
        end: Bytes::new(),
    })
}

fn delete_range(range: KeyRange) -> RequestOp {
    let delete = DeleteRangeRequest {
        key: range.start,
        range_end: range.end,
    };
    RequestOp {
        request: Some(Request::DeleteRange(delete)),
    }
}

fn txn(compare: Vec<Compare>, success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        compare,
        success,
        failure: Vec::new(),
    }
}

/// Makes one transaction of these operations, `first` on the outer level, nested if they are many.
fn within_limits(
    compare: Vec<Compare>,
    first: Option<RequestOp>,
    mut operations: Vec<RequestOp>,
) -> TxnRequest {
    let mut success: Vec<RequestOp> = first.into_iter().collect();
    if success.len() + operations.len() <= FLAT {
        success.append(&mut operations);
        return txn(compare, success);
    }
    while !operations.is_empty() {
        let rest = operations.split_off(operations.len().min(NESTED));
        let nested = txn(Vec::new(), std::mem::replace(&mut operations, rest));
        success.push(RequestOp {
            request: Some(Request::Txn(nested)),
        });
    }
    txn(compare, success)
}

/// Returns the transaction that writes the format of an empty prefix.
pub(super) fn write_format(prefix: &Prefix) -> TxnRequest {
    let key = prefix.key(&Key::Format);
    let value = FORMAT.to_string().into();
    txn(vec![unchanged(key.clone(), 0)], vec![put(key, value, 0)])
}

/// Returns the size of a request as etcd counts it.
pub(super) fn size(request: &TxnRequest) -> usize {
    request.encoded_len() + ETCD_OVERHEAD
}

/// Size up to which operations are collected into one request. One operation alone may be larger, up to the limit.
pub(super) fn batch_size(request_limit: usize) -> usize {
    request_limit / 15 * 14
}

/// Returns the transaction that publishes everything at once; `None` if it would be too large or have too many
/// operations.
pub(super) fn commit(
    keys: &LaneKeys,
    base: i64,
    head: Bytes,
    writes: &[Write],
    request_limit: usize,
) -> Option<TxnRequest> {
    if writes.len() > MAX_OPERATIONS {
        return None;
    }
    let operations = writes
        .iter()
        .map(|write| place(keys, &write.rest, write.value.clone()));
    let compare = vec![unchanged(keys.head(), base)];
    let request = within_limits(
        compare,
        Some(put(keys.head(), head, 0)),
        operations.collect(),
    );
    (request.encoded_len() <= batch_size(request_limit)).then_some(request)
}

/// Returns the transaction that publishes a complete stage.
pub(super) fn commit_stage(
    keys: &LaneKeys,
    base: i64,
    head: Bytes,
    id: PublishId,
    alive: i64,
) -> TxnRequest {
    // The stage is complete only while its `alive` key is the one that it was written under: without it, another writer
    // may have deleted the stage.
    let compare = vec![
        unchanged(keys.head(), base),
        unchanged(keys.alive(id), alive),
    ];
    txn(compare, vec![put(keys.head(), head, 0)])
}

/// Writes or deletes an entry at its place.
fn place(keys: &LaneKeys, rest: &[u8], value: Option<Bytes>) -> RequestOp {
    let key = keys.place(rest);
    match value {
        Some(value) => put(key, value, 0),
        None => delete(key),
    }
}

/// Returns the transaction that stages the first writes, and their number.
pub(super) fn stage_batch(
    keys: &LaneKeys,
    id: PublishId,
    alive: i64,
    writes: &[Write],
    request_limit: usize,
) -> (TxnRequest, usize) {
    let staged = writes.iter().map(|write| {
        // A removal is staged as an empty value.
        let value = write.value.clone().unwrap_or_default();
        vec![put(keys.staged(id, &write.rest), value, 0)]
    });
    let (operations, count) = collect(staged, request_limit);
    let compare = vec![unchanged(keys.alive(id), alive)];
    (within_limits(compare, None, operations), count)
}

/// Returns the transaction that moves the first of these staged entries to their places, and their number. `rest` is
/// the part of the key below the stage.
pub(super) fn move_batch(
    keys: &LaneKeys,
    seen: &SeenHead,
    staged: &[(Bytes, Bytes)],
    request_limit: usize,
) -> (TxnRequest, usize) {
    let id = seen.head.publish;
    let moves = staged.iter().map(|(rest, value)| {
        let value = Some(value.clone()).filter(|value| !value.is_empty());
        vec![place(keys, rest, value), delete(keys.staged(id, rest))]
    });
    let (operations, count) = collect(moves, request_limit);
    let compare = vec![unchanged(keys.head(), seen.mod_revision)];
    (within_limits(compare, None, operations), count)
}

/// Collects operations up to the limits; those of the first item are always taken.
fn collect(
    items: impl Iterator<Item = Vec<RequestOp>>,
    request_limit: usize,
) -> (Vec<RequestOp>, usize) {
    let (mut operations, mut bytes, mut count) = (Vec::new(), 0, 0);
    for mut item in items {
        let size: usize = item
            .iter()
            .map(|op| op.encoded_len() + OPERATION_OVERHEAD)
            .sum();
        let is_full = operations.len() + item.len() > MAX_OPERATIONS
            || bytes + size > batch_size(request_limit);
        if is_full && count > 0 {
            break;
        }
        bytes += size;
        count += 1;
        operations.append(&mut item);
    }
    (operations, count)
}

/// Returns the transaction after which a publish has no stage any more.
pub(super) fn finish(keys: &LaneKeys, seen: &SeenHead) -> TxnRequest {
    let mut head = seen.head.clone();
    let id = head.publish;
    head.staged = None;
    let compare = vec![unchanged(keys.head(), seen.mod_revision)];
    txn(
        compare,
        vec![
            put(keys.head(), head.encode().into(), 0),
            delete_range(keys.stage(id)),
        ],
    )
}

/// Returns the transaction that deletes a stage if no writer holds it and no head names it.
pub(super) fn undo(keys: &LaneKeys, head: i64, id: PublishId) -> TxnRequest {
    let compare = vec![unchanged(keys.head(), head), unchanged(keys.alive(id), 0)];
    txn(compare, vec![delete_range(keys.stage(id))])
}

/// Returns the transaction that gives up the writer's own stage; with a guard, unless the head was changed since this
/// revision: then it may name the stage.
pub(super) fn abandon(keys: &LaneKeys, guard: Option<i64>, id: PublishId) -> TxnRequest {
    let guard = guard.map(|revision| unchanged(keys.head(), revision));
    txn(
        guard.into_iter().collect(),
        vec![delete_range(keys.stage(id))],
    )
}

/// Returns the size of the largest request that a put of this entry may need: its move to its place.
pub(super) fn size_alone(keys: &LaneKeys, id: PublishId, rest: &[u8], value: &Bytes) -> usize {
    let operations = vec![
        place(keys, rest, Some(value.clone())),
        delete(keys.staged(id, rest)),
    ];
    size(&txn(vec![unchanged(keys.head(), i64::MAX)], operations))
}
