//! Reads, writes and transactions.

use oxds_server::store::etcd::client::Reason;
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_types::etcd::{
    CompactionRequest, Compare, CompareResult, CompareTarget, CompareValue, RangeRequest, Request,
    TxnRequest,
};

use super::{connect, connect_with, operation, plain, put, read};

#[tokio::test]
async fn g16_pages_are_read_at_one_revision() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    for name in ["a", "b", "c"] {
        etcd.put(format!("/oxds/{name}"), "1");
    }
    let client = connect(&etcd).await;
    let first = client
        .range(RangeRequest {
            limit: 2,
            ..read("/oxds/")
        })
        .await
        .unwrap();
    assert_eq!((first.kvs.len(), first.more, first.count), (2, true, 3));
    let header = first.header.unwrap();
    assert_eq!(header.cluster_id, client.identity().cluster);

    // When the store changes between two pages
    etcd.put("/oxds/c", "2");
    etcd.put("/oxds/d", "2");
    let second = RangeRequest {
        key: "/oxds/b\0".into(),
        revision: header.revision,
        ..read("/oxds/")
    };

    // Then the second page is of the revision of the first one
    let second = client.range(second).await.unwrap();
    let values: Vec<_> = second
        .kvs
        .iter()
        .map(|kv| (&kv.key[..], &kv.value[..]))
        .collect();
    assert_eq!(values, [(&b"/oxds/c"[..], &b"1"[..])]);
}

#[tokio::test]
async fn g7_nested_transaction_has_4096_writes_and_one_revision() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    let nested = |outer: usize, inner: usize| TxnRequest {
        success: (0..outer)
            .map(|group| {
                let puts = (0..inner).map(|key| put(&format!("/k/{group}/{key}"), "v"));
                operation(Request::Txn(TxnRequest {
                    success: puts.map(|put| operation(Request::Put(put))).collect(),
                    ..TxnRequest::default()
                }))
            })
            .collect(),
        ..TxnRequest::default()
    };

    let before = etcd.revision();
    let done = client.txn(nested(64, 64)).await.unwrap();

    assert!(done.succeeded);
    assert_eq!(etcd.revision(), before + 1);
    let count = RangeRequest {
        count_only: true,
        ..read("/k/")
    };
    assert_eq!(client.range(count).await.unwrap().count, 4096);
    for (outer, inner) in [(64, 65), (65, 64)] {
        let error = client.txn(nested(outer, inner)).await.unwrap_err();
        assert_eq!(error.reason(), &Reason::TooManyOperations);
    }
}

#[tokio::test]
async fn g10_compare_decides_between_two_writers() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    let seen = client
        .put(put("head", "1"))
        .await
        .unwrap()
        .header
        .unwrap()
        .revision;
    let publish = |value: &str| TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: "head".into(),
            value: Some(CompareValue::ModRevision(seen)),
            range_end: "".into(),
        }],
        success: vec![operation(Request::Put(put("head", value)))],
        failure: vec![operation(Request::Range(read("head")))],
    };
    assert!(client.txn(publish("first")).await.unwrap().succeeded);
    assert!(!client.txn(publish("second")).await.unwrap().succeeded);
    assert_eq!(&etcd.get(b"head").unwrap().value[..], b"first");
}

#[tokio::test]
async fn g9_refused_requests_have_their_reason() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    for megabytes in [2, 4] {
        let large = put("large", &"x".repeat(megabytes << 20));
        let error = client.put(large).await.unwrap_err();
        assert_eq!(error.reason(), &Reason::RequestTooLarge);
        assert!(!error.is_outcome_unknown());
        assert!(error.to_string().contains("--max-request-bytes"), "{error}");
    }
    let twice = TxnRequest {
        success: vec![
            operation(Request::Put(put("a", "1"))),
            operation(Request::Put(put("a", "2"))),
        ],
        ..TxnRequest::default()
    };
    let error = client.txn(twice).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::DuplicateKey);
    assert!(etcd.get(b"a").is_none());
}

#[tokio::test]
async fn g18_compacted_and_future_revisions_are_told_apart() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.put("a", "1");
    let last = etcd.put("a", "2");
    let client = connect(&etcd).await;
    let compaction = CompactionRequest {
        revision: last,
        physical: false,
    };
    client.compact(compaction).await.unwrap();
    let at = |revision| RangeRequest {
        revision,
        ..read("a")
    };
    let error = client.range(at(last - 1)).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::Compacted { first: None });
    assert_eq!(client.range(at(last)).await.unwrap().count, 1);
    let error = client.range(at(last + 1)).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::FutureRevision);
}

#[tokio::test]
async fn g19_response_over_the_limit_is_an_error() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    for name in ["a", "b"] {
        etcd.put(name, "x".repeat(3 << 20));
    }
    let all = RangeRequest {
        key: "a".into(),
        range_end: "c".into(),
        ..RangeRequest::default()
    };
    // The default is larger than the 4 MiB of tonic.
    let client = connect(&etcd).await;
    assert_eq!(client.range(all.clone()).await.unwrap().kvs.len(), 2);

    let (_, options) = plain(&etcd.url());
    let client = connect_with(&etcd.url(), &options.max_response(5 << 20))
        .await
        .unwrap();
    let error = client.range(all).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::ResponseTooLarge);
    assert_eq!(
        client.range(read("a")).await.unwrap().kvs.len(),
        1,
        "the connection is still good"
    );
}
