//! Transactions: checks, conditions, operations.

use std::cmp::Ordering;
use std::collections::HashSet;

use bytes::Bytes;
use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, DeleteRangeResponse,
    KeyValue, PutRequest, PutResponse, RangeRequest, Request, RequestOp, Response, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse,
};
use tonic::Status;

use super::mvcc::{Change, KeyRange};
use super::refusal;

/// Checks that do not need the store (`checkTxnRequest` and `checkIntervals` of etcd's `v3rpc/key.go`).
///
/// # Errors
/// A refusal.
pub(super) fn check(request: &TxnRequest, max_operations: usize) -> Result<(), Status> {
    check_operations(request, max_operations)?;
    check_keys(&request.success)?;
    check_keys(&request.failure)?;
    Ok(())
}

fn check_operations(request: &TxnRequest, max_operations: usize) -> Result<(), Status> {
    let lists = [&request.success, &request.failure];
    let longest = lists.map(Vec::len).into_iter().max().unwrap_or(0);
    let count = longest.max(request.compare.len());
    let Some(rest) = max_operations.checked_sub(count) else {
        return Err(refusal::too_many_operations());
    };
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(refusal::empty_key());
    }
    for operation in lists.into_iter().flatten() {
        match &operation.request {
            Some(Request::Range(range)) => check_range(range)?,
            Some(Request::Put(put)) => check_put(put)?,
            Some(Request::DeleteRange(delete)) => check_delete(delete)?,
            Some(Request::Txn(nested)) => check_operations(nested, rest)?,
            None => return Err(refusal::key_not_found()),
        }
    }
    Ok(())
}

/// Checks a read.
///
/// # Errors
/// A refusal.
pub(super) fn check_range(request: &RangeRequest) -> Result<(), Status> {
    match request.key.is_empty() {
        true => Err(refusal::empty_key()),
        false => Ok(()),
    }
}

/// Checks a write.
///
/// # Errors
/// A refusal.
pub(super) fn check_put(request: &PutRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        return Err(refusal::empty_key());
    }
    match request.ignore_value && !request.value.is_empty() {
        true => Err(refusal::value_provided()),
        false => Ok(()),
    }
}

/// Checks a deletion.
///
/// # Errors
/// A refusal.
pub(super) fn check_delete(request: &DeleteRangeRequest) -> Result<(), Status> {
    match request.key.is_empty() {
        true => Err(refusal::empty_key()),
        false => Ok(()),
    }
}

/// Keys that a list of operations writes, and ranges that it deletes.
#[derive(Default)]
struct Written<'a> {
    puts: HashSet<&'a Bytes>,
    deletes: Vec<KeyRange<'a>>,
}

impl<'a> Written<'a> {
    fn add_put(&mut self, key: &'a Bytes) -> Result<(), Status> {
        let is_deleted = self.deletes.iter().any(|range| range.contains(key));
        match is_deleted || !self.puts.insert(key) {
            true => Err(refusal::duplicate_key()),
            false => Ok(()),
        }
    }
}

/// Refuses operations that write a key twice. Only one list of a nested transaction is done, so both may write the same key.
fn check_keys(operations: &[RequestOp]) -> Result<Written<'_>, Status> {
    let mut written = Written::default();
    for operation in operations {
        if let Some(Request::DeleteRange(delete)) = &operation.request {
            written.deletes.push(KeyRange {
                key: &delete.key,
                end: &delete.range_end,
            });
        }
    }
    for operation in operations {
        if let Some(Request::Txn(nested)) = &operation.request {
            let success = check_keys(&nested.success)?;
            let failure = check_keys(&nested.failure)?;
            let both = failure.puts.difference(&success.puts).copied();
            for key in success.puts.iter().copied().chain(both) {
                written.add_put(key)?;
            }
            written.deletes.extend(success.deletes);
            written.deletes.extend(failure.deletes);
        }
    }
    for operation in operations {
        if let Some(Request::Put(put)) = &operation.request {
            written.add_put(&put.key)?;
        }
    }
    Ok(written)
}

/// Returns whether a transaction has a write that needs space, in any of its lists.
pub(super) fn needs_space(request: &TxnRequest) -> bool {
    let mut operations = request.success.iter().chain(&request.failure);
    operations.any(|operation| match &operation.request {
        Some(Request::Put(_)) => true,
        Some(Request::Txn(nested)) => needs_space(nested),
        _ => false,
    })
}

/// Returns all writes of a transaction, in any of its lists.
pub(super) fn puts(request: &TxnRequest) -> Vec<&PutRequest> {
    let mut found = Vec::new();
    for operation in request.success.iter().chain(&request.failure) {
        match &operation.request {
            Some(Request::Put(put)) => found.push(put),
            Some(Request::Txn(nested)) => found.extend(puts(nested)),
            _ => {}
        }
    }
    found
}

/// Does a transaction that has been checked.
///
/// # Errors
/// A read is at a revision that does not exist, or a key does not exist whose value shall be kept.
pub(super) fn apply(change: &mut Change<'_>, request: &TxnRequest) -> Result<TxnResponse, Status> {
    let succeeded = request.compare.iter().all(|compare| holds(change, compare));
    let operations = if succeeded {
        &request.success
    } else {
        &request.failure
    };
    let mut responses = Vec::with_capacity(operations.len());
    for operation in operations {
        let response = match &operation.request {
            Some(Request::Range(range)) => {
                let mut response = change.store().range(range)?;
                response.header = header(change);
                Response::Range(response)
            }
            Some(Request::Put(put)) => {
                if put.ignore_value && change.store().get(&put.key).is_none() {
                    return Err(refusal::key_not_found());
                }
                change.put(put);
                Response::Put(PutResponse {
                    header: header(change),
                })
            }
            Some(Request::DeleteRange(delete)) => {
                let deleted = change.delete(delete);
                let header = header(change);
                Response::DeleteRange(DeleteRangeResponse { header, deleted })
            }
            Some(Request::Txn(nested)) => Response::Txn(apply(change, nested)?),
            None => return Err(refusal::key_not_found()),
        };
        responses.push(ResponseOp {
            response: Some(response),
        });
    }
    Ok(TxnResponse {
        header: header(change),
        succeeded,
        responses,
    })
}

/// Headers within a transaction have only the revision.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the type of the field in all responses"
)]
fn header(change: &Change<'_>) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        revision: change.revision(),
        ..ResponseHeader::default()
    })
}

/// Whether a condition holds, for each key of its range. For no key, it must hold for a key that does not exist.
fn holds(change: &Change<'_>, compare: &Compare) -> bool {
    let range = KeyRange {
        key: &compare.key,
        end: &compare.range_end,
    };
    let mut found = change.store().found(range, i64::MAX).peekable();
    if found.peek().is_none() {
        // A value cannot express "does not exist".
        return compare.target() != CompareTarget::Value
            && holds_for(&KeyValue::default(), compare);
    }
    found.all(|key| holds_for(key, compare))
}

fn holds_for(key: &KeyValue, compare: &Compare) -> bool {
    let number = |value: i64, given: Option<i64>| value.cmp(&given.unwrap_or(0));
    let given = |read: fn(&CompareValue) -> Option<i64>| compare.value.as_ref().and_then(read);
    let order = match compare.target() {
        CompareTarget::Version => number(
            key.version,
            given(|value| match value {
                CompareValue::Version(version) => Some(*version),
                _ => None,
            }),
        ),
        CompareTarget::Create => number(
            key.create_revision,
            given(|value| match value {
                CompareValue::CreateRevision(revision) => Some(*revision),
                _ => None,
            }),
        ),
        CompareTarget::Mod => number(
            key.mod_revision,
            given(|value| match value {
                CompareValue::ModRevision(revision) => Some(*revision),
                _ => None,
            }),
        ),
        CompareTarget::Lease => number(
            key.lease,
            given(|value| match value {
                CompareValue::Lease(lease) => Some(*lease),
                _ => None,
            }),
        ),
        CompareTarget::Value => match &compare.value {
            Some(CompareValue::Value(value)) => key.value.cmp(value),
            _ => key.value.as_ref().cmp(&[]),
        },
    };
    match compare.result() {
        CompareResult::Equal => order == Ordering::Equal,
        CompareResult::NotEqual => order != Ordering::Equal,
        CompareResult::Greater => order == Ordering::Greater,
        CompareResult::Less => order == Ordering::Less,
    }
}
