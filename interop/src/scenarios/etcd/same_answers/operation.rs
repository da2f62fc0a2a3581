//! Operations whose answers are compared.

use oxds_types::etcd::{
    AlarmAction, AlarmRequest, AlarmType, CompactionRequest, Compare, CompareResult, CompareTarget,
    CompareValue, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, Request, RequestOp, TxnRequest, WatchCreateRequest,
};

use super::super::shared::{operation, put, read, transaction, watch};

/// An operation.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Grant(LeaseGrantRequest),
    Revoke(LeaseRevokeRequest),
    Renew(i64),
    Alarm(AlarmRequest),
    Watch(WatchCreateRequest),
}

/// The revision of the only compaction.
pub(super) const COMPACTED: i64 = 6;

/// A condition on a key.
pub(super) fn compare(
    key: &str,
    target: CompareTarget,
    result: CompareResult,
    value: CompareValue,
) -> Compare {
    Compare {
        result: result.into(),
        target: target.into(),
        key: key.to_owned().into(),
        value: Some(value),
        range_end: "".into(),
    }
}

pub(super) fn delete(key: &str, range_end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: range_end.to_owned().into(),
    }
}

/// Operations that each have a reason to be there.
pub(super) fn listed() -> Vec<Operation> {
    let mut all = reads_and_writes();
    all.extend(conditions());
    all.extend(lists());
    all.extend(leases());
    all.extend(history());
    all
}

fn reads_and_writes() -> Vec<Operation> {
    let all = || RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..RangeRequest::default()
    };
    let alarms = |alarm: AlarmType| AlarmRequest {
        action: AlarmAction::Get.into(),
        member_id: 0,
        alarm: alarm.into(),
    };
    vec![
        Operation::Range(all()),
        Operation::Alarm(alarms(AlarmType::None)),
        // An absent key, an empty key, and the first revisions.
        Operation::Delete(delete("/a", "")),
        Operation::Put(put("", "1")),
        Operation::Range(RangeRequest::default()),
        Operation::Delete(DeleteRangeRequest::default()),
        Operation::Put(put("/a", "1")),
        Operation::Put(put("/a", "2")),
        Operation::Put(put("/b/x", "")),
        Operation::Put(put("/b/y", "1")),
        Operation::Range(RangeRequest { limit: 2, ..all() }),
        Operation::Range(RangeRequest {
            keys_only: true,
            ..all()
        }),
        Operation::Range(RangeRequest {
            count_only: true,
            limit: 1,
            ..all()
        }),
        Operation::Range(RangeRequest {
            revision: 2,
            ..all()
        }),
        Operation::Range(RangeRequest {
            revision: 99,
            ..all()
        }),
        Operation::Range(RangeRequest {
            revision: -1,
            ..all()
        }),
        Operation::Range(RangeRequest {
            serializable: true,
            ..read("/b/")
        }),
        Operation::Range(RangeRequest {
            range_end: "/a".into(),
            ..read("/b/")
        }),
        // A value is kept, and cannot be kept.
        Operation::Put(PutRequest {
            ignore_value: true,
            ..put("/a", "")
        }),
        Operation::Put(PutRequest {
            ignore_value: true,
            ..put("/a", "3")
        }),
        Operation::Put(PutRequest {
            ignore_value: true,
            ..put("/none", "")
        }),
        Operation::Put(PutRequest {
            lease: 99,
            ..put("/a", "3")
        }),
        Operation::Delete(delete("/b/", "/b0")),
        Operation::Delete(delete("/b/", "/b0")),
        Operation::Put(put("/b/x", "again")),
    ]
}

/// Transactions that a condition decides.
fn conditions() -> Vec<Operation> {
    let value = |text: &'static str| CompareValue::Value(text.into());
    let ranged = |mut compare: Compare, range_end: &'static str| {
        compare.range_end = range_end.into();
        compare
    };
    let decide = |compare: Compare| {
        Operation::Txn(TxnRequest {
            compare: vec![compare],
            success: vec![operation(Request::Put(put("/t", "yes")))],
            failure: vec![operation(Request::Range(read("/t")))],
        })
    };
    use CompareResult::{Equal, Greater, Less, NotEqual};
    use CompareTarget::{Create, Lease, Mod, Value, Version};
    vec![
        Operation::Txn(TxnRequest::default()),
        decide(compare("/a", Version, Equal, CompareValue::Version(3))),
        decide(compare("/a", Create, Less, CompareValue::CreateRevision(3))),
        decide(compare("/a", Mod, Greater, CompareValue::ModRevision(100))),
        decide(compare("/none", Mod, Equal, CompareValue::ModRevision(0))),
        decide(compare("/none", Version, Greater, CompareValue::Version(0))),
        decide(compare("/none", Value, Equal, value(""))),
        decide(compare("/none", Value, NotEqual, value("x"))),
        decide(compare("/b/x", Value, Equal, value("again"))),
        decide(compare("/b/x", Value, Less, value("again"))),
        decide(compare("/a", Lease, Equal, CompareValue::Lease(0))),
        decide(ranged(
            compare("/a", Version, Greater, CompareValue::Version(0)),
            "/c",
        )),
        decide(ranged(
            compare("/a", Version, Equal, CompareValue::Version(1)),
            "/c",
        )),
        decide(ranged(
            compare("/y", Version, Equal, CompareValue::Version(0)),
            "/z",
        )),
    ]
}

/// Transactions with lists of operations.
fn lists() -> Vec<Operation> {
    use CompareResult::Equal;
    use CompareTarget::Version;
    let write = |key: &str| Request::Put(put(key, "n"));
    let remove = |key: &str, end: &str| Request::DeleteRange(delete(key, end));
    let lists: Vec<Vec<Request>> = vec![
        // Reads see the writes before them, and all writes have one revision.
        vec![
            write("/t/1"),
            Request::Range(read("/t/")),
            write("/t/2"),
            Request::Range(read("/t/")),
        ],
        vec![remove("/t/", "/t0"), Request::Range(read("/t/"))],
        vec![write("/t/1"), write("/t/1")],
        vec![write("/t/1"), remove("/t/", "/t0")],
        vec![remove("/t/", "/t0"), remove("/t/1", "")],
        vec![write("/t/1"), Request::Txn(transaction([write("/t/1")]))],
        vec![
            write("/t/1"),
            Request::Txn(transaction([write("/t/2"), Request::Range(read("/t/"))])),
        ],
        vec![
            Request::Txn(transaction([write("/t/3")])),
            Request::Txn(transaction([write("/t/3")])),
        ],
        vec![
            Request::Txn(transaction([])),
            Request::Range(RangeRequest {
                revision: 99,
                ..read("/t/")
            }),
        ],
        vec![
            write("/t/9"),
            Request::Range(RangeRequest {
                revision: 99,
                ..read("/t/")
            }),
        ],
        vec![Request::Put(PutRequest {
            ignore_value: true,
            ..put("/none", "")
        })],
        vec![
            write("/t/8"),
            Request::Put(PutRequest {
                lease: 99,
                ..put("/t/9", "")
            }),
        ],
        vec![write("")],
        (0..128)
            .map(|number| write(&format!("/many/{number}")))
            .collect(),
        (0..129)
            .map(|number| write(&format!("/many/{number}")))
            .collect(),
    ];
    let lists = lists.into_iter();
    let mut all: Vec<_> = lists
        .map(|list| Operation::Txn(transaction(list)))
        .collect();
    all.push(Operation::Txn(TxnRequest {
        success: vec![RequestOp::default()],
        ..TxnRequest::default()
    }));
    // Both lists of a nested transaction may write the same key.
    let both = TxnRequest {
        compare: vec![compare("/a", Version, Equal, CompareValue::Version(0))],
        success: vec![operation(write("/both"))],
        failure: vec![operation(write("/both"))],
    };
    all.push(Operation::Txn(transaction([Request::Txn(both)])));
    all
}

fn leases() -> Vec<Operation> {
    let leased = |key: &str, lease| {
        Operation::Put(PutRequest {
            lease,
            ..put(key, "l")
        })
    };
    let revoke = |id| Operation::Revoke(LeaseRevokeRequest { id });
    vec![
        Operation::Grant(LeaseGrantRequest { ttl: 60, id: 7 }),
        Operation::Grant(LeaseGrantRequest { ttl: 60, id: 7 }),
        Operation::Grant(LeaseGrantRequest { ttl: 60, id: 8 }),
        leased("/l/1", 7),
        leased("/l/2", 7),
        leased("/l/2", 8),
        leased("/l/3", 7),
        Operation::Put(put("/l/3", "free")),
        Operation::Renew(7),
        Operation::Renew(9),
        revoke(7),
        revoke(7),
        Operation::Range(read("/l/")),
        revoke(8),
        Operation::Range(read("/l/")),
    ]
}

fn history() -> Vec<Operation> {
    let compact = |revision| {
        Operation::Compact(CompactionRequest {
            revision,
            physical: true,
        })
    };
    let at = |revision| {
        Operation::Range(RangeRequest {
            revision,
            ..read("/")
        })
    };
    vec![
        compact(9_999),
        compact(COMPACTED),
        compact(COMPACTED),
        compact(COMPACTED - 1),
        compact(0),
        at(COMPACTED - 1),
        at(COMPACTED),
        at(COMPACTED + 1),
        Operation::Watch(watch("/none/", COMPACTED - 1)),
        Operation::Watch(watch("/none/", COMPACTED)),
        Operation::Watch(watch("/none/", 0)),
        Operation::Watch(watch("/none/", 9_999)),
        Operation::Watch(WatchCreateRequest {
            watch_id: 5,
            ..watch("/none/", 0)
        }),
    ]
}
