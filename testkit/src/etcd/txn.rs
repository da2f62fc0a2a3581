//! Transactions: checks, conditions, operations.

use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, DeleteRangeResponse,
    KeyValue, PutRequest, PutResponse, RangeRequest, Request, RequestOp, Response, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse,
};
use tonic::Status;

use super::leases::Leases;
use super::mvcc::{Change, KeyRange, Mvcc};
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
    if request.key.is_empty() {
        Err(refusal::empty_key())
    } else {
        Ok(())
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
    if request.ignore_value && !request.value.is_empty() {
        Err(refusal::value_provided())
    } else {
        Ok(())
    }
}

/// Checks a deletion.
///
/// # Errors
/// A refusal.
pub(super) fn check_delete(request: &DeleteRangeRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        Err(refusal::empty_key())
    } else {
        Ok(())
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
        if is_deleted || !self.puts.insert(key) {
            Err(refusal::duplicate_key())
        } else {
            Ok(())
        }
    }
}

/// Refuses operations that write a key twice. Only one list of a nested transaction is done, so both may write the same
/// key.
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

/// The list of operations that each transaction does, nested ones included, in the order in which they are met: whether
/// its conditions hold.
///
/// All conditions are about the store before the transaction, those of nested transactions too (`compareToPath` of
/// etcd's
/// `txn/txn.go`).
#[derive(Debug)]
pub(super) struct Path(VecDeque<bool>);

impl Path {
    /// Decides all conditions.
    pub(super) fn decide(store: &Mvcc, request: &TxnRequest) -> Self {
        let mut path = Self(VecDeque::new());
        path.extend(store, request);
        path
    }

    fn extend(&mut self, store: &Mvcc, request: &TxnRequest) {
        let succeeds = request.compare.iter().all(|compare| holds(store, compare));
        self.0.push_back(succeeds);
        for operation in operations(request, succeeds) {
            if let Some(Request::Txn(nested)) = &operation.request {
                self.extend(store, nested);
            }
        }
    }

    /// Checks all operations that will be executed, before the first one.
    ///
    /// # Errors
    /// A read is at a revision that does not exist, a lease does not exist, or a key whose value shall be kept.
    pub(super) fn check(
        &self,
        store: &Mvcc,
        leases: &Leases,
        request: &TxnRequest,
    ) -> Result<(), Status> {
        self.check_from(&mut 0, store, leases, request)
    }

    fn check_from(
        &self,
        at: &mut usize,
        store: &Mvcc,
        leases: &Leases,
        request: &TxnRequest,
    ) -> Result<(), Status> {
        let succeeds = self.0.get(*at).copied().unwrap_or_default();
        *at += 1;
        for operation in operations(request, succeeds) {
            match &operation.request {
                Some(Request::Range(range)) => drop(store.range(range)?),
                Some(Request::Put(put)) => check_state(store, leases, put)?,
                Some(Request::Txn(nested)) => self.check_from(at, store, leases, nested)?,
                Some(Request::DeleteRange(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Does a transaction that has been checked.
    pub(super) fn apply(mut self, change: &mut Change<'_>, request: &TxnRequest) -> TxnResponse {
        let mut response = self.apply_next(change, request);
        response.header = header(change);
        response
    }

    fn apply_next(&mut self, change: &mut Change<'_>, request: &TxnRequest) -> TxnResponse {
        let succeeded = self.0.pop_front().unwrap_or_default();
        let mut responses = Vec::new();
        for operation in operations(request, succeeded) {
            let response = match &operation.request {
                Some(Request::Range(range)) => {
                    // It was checked before, so it cannot fail.
                    let mut response = change.store().range(range).unwrap_or_default();
                    response.header = header(change);
                    Response::Range(response)
                }
                Some(Request::Put(put)) => {
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
                Some(Request::Txn(nested)) => Response::Txn(self.apply_next(change, nested)),
                None => continue,
            };
            responses.push(ResponseOp {
                response: Some(response),
            });
        }
        TxnResponse {
            // The header of a nested transaction is empty.
            header: Some(ResponseHeader::default()),
            succeeded,
            responses,
        }
    }
}

fn operations(request: &TxnRequest, succeeds: bool) -> &[RequestOp] {
    if succeeds {
        &request.success
    } else {
        &request.failure
    }
}

/// Checks a write against the store.
///
/// # Errors
/// The lease does not exist, or the key whose value shall be kept.
pub(super) fn check_state(
    store: &Mvcc,
    leases: &Leases,
    request: &PutRequest,
) -> Result<(), Status> {
    if request.lease != 0 && !leases.exists(request.lease) {
        return Err(refusal::lease_not_found());
    }
    if request.ignore_value && store.get(&request.key).is_none() {
        Err(refusal::key_not_found())
    } else {
        Ok(())
    }
}

/// The header of an operation has only the revision.
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
fn holds(store: &Mvcc, compare: &Compare) -> bool {
    let range = KeyRange {
        key: &compare.key,
        end: &compare.range_end,
    };
    let mut found = store.found(range, i64::MAX).peekable();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, lease: i64) -> RequestOp {
        RequestOp {
            request: Some(Request::Put(PutRequest {
                key: key.into(),
                lease,
                ..PutRequest::default()
            })),
        }
    }

    #[test]
    fn conditions_are_about_the_store_before_the_transaction() {
        let mut store = Mvcc::default();
        let absent = Compare {
            target: CompareTarget::Mod.into(),
            key: "a".into(),
            value: Some(CompareValue::ModRevision(0)),
            ..Compare::default()
        };
        let nested = TxnRequest {
            compare: vec![absent],
            success: vec![put("b", 0)],
            // This list is not executed, so its lease may be missing.
            failure: vec![put("b", 7)],
        };
        let request = TxnRequest {
            success: vec![
                put("a", 0),
                RequestOp {
                    request: Some(Request::Txn(nested)),
                },
            ],
            ..TxnRequest::default()
        };

        let path = Path::decide(&store, &request);
        path.check(&store, &Leases::default(), &request).unwrap();
        let mut change = store.begin();
        let done = path.apply(&mut change, &request);
        change.end();

        let Some(Response::Txn(nested)) = &done.responses[1].response else {
            panic!("{done:?}");
        };
        assert!(nested.succeeded, "the write of \"a\" is not seen");
        assert!(store.get(b"b").is_some());
    }
}
