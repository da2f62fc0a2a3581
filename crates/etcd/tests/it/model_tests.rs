//! The model of etcd has the limits and the revisions that were measured with etcd 3.4.23 and 3.7.3.

use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, LeaseGrantRequest,
    PutRequest, RangeRequest, Request, RequestOp, TxnRequest, prefix_end,
};

use super::model::{Etcd, EtcdError, MAX_REQUEST};

fn put(key: &str, value: &[u8]) -> RequestOp {
    put_leased(key, value, 0)
}

fn put_leased(key: &str, value: &[u8], lease: i64) -> RequestOp {
    let (key, value) = (key.to_owned().into(), value.to_vec().into());
    let put = PutRequest {
        key,
        value,
        lease,
        ..PutRequest::default()
    };
    RequestOp {
        request: Some(Request::Put(put)),
    }
}

fn delete(prefix: &str) -> RequestOp {
    let delete = DeleteRangeRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
    };
    RequestOp {
        request: Some(Request::DeleteRange(delete)),
    }
}

fn txn(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        success,
        ..TxnRequest::default()
    }
}

fn nested(outer: usize, inner: usize) -> TxnRequest {
    let inner = |at: usize| (0..inner).map(move |n| put(&format!("k{at}-{n}"), b""));
    let outer = (0..outer).map(|at| RequestOp {
        request: Some(Request::Txn(txn(inner(at).collect()))),
    });
    txn(outer.collect())
}

fn read(etcd: &Etcd, prefix: &str, revision: i64) -> Result<Vec<(String, i64)>, EtcdError> {
    let request = RangeRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        revision,
        ..RangeRequest::default()
    };
    let kvs = etcd.range(&request)?.kvs;
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    Ok(kvs
        .iter()
        .map(|kv| (text(&kv.key), kv.mod_revision))
        .collect())
}

#[test]
fn model_limits_transactions_as_etcd_does() {
    let mut etcd = Etcd::default();
    let flat = |len: usize| txn((0..len).map(|n| put(&format!("k{n}"), b"")).collect());
    assert!(etcd.txn(&flat(128)).is_ok());
    assert_eq!(
        etcd.txn(&flat(129)).err(),
        Some(EtcdError::TooManyOperations)
    );
    assert!(etcd.txn(&nested(64, 64)).is_ok(), "64 x 64 pass");
    assert_eq!(etcd.revision(), 3, "one revision for each transaction");
    for (outer, inner) in [(65, 64), (64, 65)] {
        assert_eq!(
            etcd.txn(&nested(outer, inner)).err(),
            Some(EtcdError::TooManyOperations)
        );
    }
    let large = txn(vec![put("k", &vec![0; MAX_REQUEST])]);
    assert_eq!(etcd.txn(&large).err(), Some(EtcdError::RequestTooLarge));
    for twice in [
        vec![put("k", b""), put("k", b"")],
        vec![put("k", b""), delete("k")],
    ] {
        assert_eq!(etcd.txn(&txn(twice)).err(), Some(EtcdError::DuplicateKey));
    }
    assert_eq!(etcd.revision(), 3);
}

#[test]
fn model_reads_old_revisions_until_they_are_compacted() {
    let mut etcd = Etcd::default();
    let (a, b) = (etcd.put("p/a", "1"), etcd.put("p/b", "1"));
    let deleted = etcd.delete("p/a");
    assert_eq!(read(&etcd, "p/", 0), Ok(vec![("p/b".into(), b)]));
    assert_eq!(
        read(&etcd, "p/", b),
        Ok(vec![("p/a".into(), a), ("p/b".into(), b)])
    );
    assert_eq!(
        etcd.delete("p/a"),
        deleted,
        "without a change there is no revision"
    );
    etcd.compact(deleted);
    assert_eq!(read(&etcd, "p/", b), Err(EtcdError::Compacted));
    assert_eq!(
        read(&etcd, "p/", deleted + 1),
        Err(EtcdError::FutureRevision)
    );
    let events: Vec<i64> = etcd.events(1).map(|(revision, _)| revision).collect();
    assert_eq!((events, etcd.compacted()), (vec![deleted], deleted));
}

#[test]
fn model_writes_one_branch_of_a_transaction() {
    let mut etcd = Etcd::default();
    let seen = etcd.put("head", "1");
    let compare = |revision| Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: "head".into(),
        value: Some(CompareValue::ModRevision(revision)),
        ..Compare::default()
    };
    let swap = |revision| TxnRequest {
        compare: vec![compare(revision)],
        success: vec![put("head", b"2")],
        failure: vec![],
    };
    assert!(!etcd.txn(&swap(seen - 1)).expect("valid").succeeded);
    assert_eq!(etcd.revision(), seen);
    assert!(etcd.txn(&swap(seen)).expect("valid").succeeded);
    assert!(!etcd.txn(&swap(seen)).expect("valid").succeeded);
    let kv = &etcd.keys("head")[0];
    assert_eq!(
        (kv.create_revision, kv.mod_revision, kv.version),
        (seen, seen + 1, 2)
    );
}

#[test]
fn model_deletes_the_keys_of_an_ended_lease() {
    let mut etcd = Etcd::default();
    let lease = etcd
        .grant(LeaseGrantRequest { ttl: 5, id: 0 })
        .expect("space")
        .id;
    etcd.txn(&txn(vec![
        put_leased("a", b"", lease),
        put_leased("b", b"", lease),
    ]))
    .expect("leased");
    etcd.put("b", "without a lease");
    let before = etcd.revision();
    etcd.expire();
    assert_eq!((etcd.keys("a").len(), etcd.keys("b").len()), (0, 1));
    assert_eq!(
        (etcd.revision(), etcd.has_lease(lease)),
        (before + 1, false)
    );
    let late = txn(vec![put_leased("a", b"", lease)]);
    assert_eq!(etcd.txn(&late).err(), Some(EtcdError::LeaseNotFound));
}

#[test]
fn model_without_space_reads_and_deletes() {
    let mut etcd = Etcd::default();
    etcd.put("a", "1");
    etcd.no_space = true;
    assert_eq!(
        etcd.txn(&txn(vec![put("b", b"")])).err(),
        Some(EtcdError::NoSpace)
    );
    let grant = etcd.grant(LeaseGrantRequest { ttl: 5, id: 0 });
    assert_eq!(grant.err(), Some(EtcdError::NoSpace));
    etcd.delete("a");
    assert_eq!(read(&etcd, "a", 0), Ok(vec![]));
}
