//! Assignment of calls to watchers.

use super::*;

fn answer(host: &str) -> Result<Answer, Status> {
    let mut initial = MetadataMap::new();
    initial.insert("hostname", host.parse().unwrap());
    let mut trailing = MetadataMap::new();
    trailing.insert("cost", "3".parse().unwrap());
    Ok(Answer {
        host: host.to_owned(),
        initial,
        trailing,
    })
}

fn failed() -> Result<Answer, Status> {
    Err(Status::unavailable("no backend"))
}

fn request(num_rpcs: i32, timeout_sec: i32, keys: &[&str]) -> LoadBalancerStatsRequest {
    LoadBalancerStatsRequest {
        num_rpcs,
        timeout_sec,
        metadata_keys: keys.iter().map(ToString::to_string).collect(),
    }
}

/// Given a call in progress when the next two are requested, then it does not count, though it ends first; the next two
/// do, in any order of their ends, and one more does not.
#[tokio::test]
async fn the_next_calls_are_those_that_begin_next() {
    let stats = Stats::default();
    let before = stats.begin(RpcType::UnaryCall);
    let asked = request(2, 60, &[]);
    let (seen, ()) = tokio::join!(stats.next(&asked), async {
        let [one, two, three] = [(); 3].map(|()| stats.begin(RpcType::EmptyCall));
        stats.end(before, RpcType::UnaryCall, &answer("old"));
        stats.end(three, RpcType::EmptyCall, &answer("three"));
        stats.end(two, RpcType::EmptyCall, &failed());
        stats.end(one, RpcType::EmptyCall, &answer("one"));
    });
    let seen = seen.unwrap();
    assert_eq!(seen.rpcs_by_peer, BTreeMap::from([("one".to_owned(), 1)]));
    assert_eq!(seen.num_failures, 1);
    let by_method = &seen.rpcs_by_method["EmptyCall"].rpcs_by_peer;
    assert_eq!(by_method, &seen.rpcs_by_peer);
    assert!(seen.metadatas_by_peer.is_empty());
    assert!(stats.lock().watchers.is_empty());
}

/// Given a request for three calls, when the time is over with one ended, then the other two count as failed.
#[tokio::test(start_paused = true)]
async fn calls_that_exceed_the_time_count_as_failed() {
    let stats = Stats::default();
    let asked = request(3, 5, &[]);
    let (seen, ()) = tokio::join!(stats.next(&asked), async {
        let one = stats.begin(RpcType::UnaryCall);
        stats.end(one, RpcType::UnaryCall, &answer("one"));
    });
    let seen = seen.unwrap();
    assert_eq!((seen.rpcs_by_peer["one"], seen.num_failures), (1, 2));
}

#[tokio::test]
async fn metadata_is_picked_by_key_or_all_of_it() {
    for (keys, expected) in [
        (&["COST"][..], vec![("cost", MetadataType::Trailing)]),
        (
            &["*"][..],
            vec![
                ("hostname", MetadataType::Initial),
                ("cost", MetadataType::Trailing),
            ],
        ),
        (&["none"][..], vec![]),
    ] {
        let stats = Stats::default();
        let asked = request(1, 60, keys);
        let (seen, ()) = tokio::join!(stats.next(&asked), async {
            let one = stats.begin(RpcType::UnaryCall);
            stats.end(one, RpcType::UnaryCall, &answer("a"));
        });
        let calls = &seen.unwrap().metadatas_by_peer["a"].rpc_metadata;
        assert_eq!(calls.len(), 1);
        let found: Vec<_> = calls[0]
            .metadata
            .iter()
            .map(|entry| (&*entry.key, entry.kind()))
            .collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn dropped_request_removes_its_watcher() {
    let stats = Stats::default();
    let asked = request(1, 60, &[]);
    let short = Duration::from_millis(1);
    assert!(
        tokio::time::timeout(short, stats.next(&asked))
            .await
            .is_err()
    );
    assert!(stats.lock().watchers.is_empty());
}

#[tokio::test]
async fn numbers_below_zero_are_refused() {
    for asked in [request(-1, 1, &[]), request(1, -1, &[])] {
        let refused = Stats::default().next(&asked).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[test]
fn totals_are_by_method_and_status() {
    let stats = Stats::default();
    for outcome in [answer("a"), failed(), failed()] {
        let call = stats.begin(RpcType::UnaryCall);
        stats.end(call, RpcType::UnaryCall, &outcome);
    }
    stats.begin(RpcType::EmptyCall);
    let totals = stats.accumulated();
    let unary = &totals.stats_per_method["UNARY_CALL"];
    assert_eq!(unary.rpcs_started, 3);
    assert_eq!(unary.result, BTreeMap::from([(0, 1), (14, 2)]));
    assert_eq!(totals.num_rpcs_failed_by_method["UNARY_CALL"], 2);
    assert_eq!(totals.num_rpcs_succeeded_by_method["UNARY_CALL"], 1);
    let empty = &totals.stats_per_method["EMPTY_CALL"];
    assert_eq!((empty.rpcs_started, empty.result.len()), (1, 0));
}
