//! What is counted, and how it is told.

use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use oxds_core::lrs::ClusterKey;
use oxds_core::resource::LocalityId;

use super::{Played, counts, everything, here, names, rpc, window};

/// given RPCs that began, succeeded, failed / then a report has what came since the one before, and those in progress as
/// of now.
#[test]
fn c136_counts_are_differences_and_those_in_progress_are_not() {
    let (mut played, load) = Played::reporting(5);
    let place = load.locality(&here());
    for _ in 0..5 {
        place.begin();
    }
    place.succeed();
    place.fail();
    let stats = played.report();
    assert_eq!(counts(&stats[0].upstream_locality_stats[0]), [5, 1, 1, 3]);
    place.succeed();
    let stats = played.report();
    assert_eq!(counts(&stats[0].upstream_locality_stats[0]), [0, 1, 0, 2]);
    let stats = played.report();
    assert_eq!(counts(&stats[0].upstream_locality_stats[0]), [0, 0, 0, 2]);
}

/// given a cluster under two service names, and one that comes into use 3 s later / then there are rows of their own, by
/// locality, and each window is as long as it was.
#[test]
fn c137_rows_are_by_cluster_service_and_locality_with_their_own_windows() {
    let (mut played, load) = Played::reporting(5);
    played.now += Duration::from_secs(3);
    let other = played
        .reporter
        .enter(played.now, &ClusterKey::new("a", "other"));
    let plain = played
        .reporter
        .enter(played.now, &ClusterKey::new("p", "p"));
    rpc(&load);
    load.locality(&LocalityId::default()).begin();
    rpc(&other);
    rpc(&plain);
    let stats = played.report();
    let row = |stats: &ClusterStats| {
        let service = stats.cluster_service_name.clone();
        let places = stats.upstream_locality_stats.len();
        (service, places, window(stats).as_secs())
    };
    let rows: Vec<_> = stats.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            ("a-eds".to_owned(), 2, 5),
            ("other".to_owned(), 1, 2),
            (String::new(), 1, 2)
        ]
    );
    let place = stats[0].upstream_locality_stats[1]
        .locality
        .clone()
        .unwrap();
    assert_eq!(
        (&*place.region, &*place.zone, &*place.sub_zone),
        ("eu", "1", "a")
    );
    // A timer that fires late makes a longer window, and says so.
    rpc(&load);
    played.now += Duration::from_secs(8);
    let stats = played.requests().remove(0).cluster_stats;
    assert_eq!(window(&stats[0]), Duration::from_secs(8));
}

#[test]
fn c138_drops_are_told_by_category_and_in_all() {
    let (mut played, load) = Played::reporting(5);
    let (shed, _unused) = (load.category(&"shed".into()), load.category(&"test".into()));
    for _ in 0..3 {
        shed.add();
    }
    load.uncategorized().add();
    let stats = played.report();
    assert_eq!(stats[0].total_dropped_requests, 4);
    let by_category = &stats[0].dropped_requests;
    assert_eq!(by_category.len(), 1);
    assert_eq!(
        (&*by_category[0].category, by_category[0].dropped_count),
        ("shed", 3)
    );
    assert_eq!(played.report()[0].total_dropped_requests, 0, "once");
}

/// given a stream that breaks / when RPCs go on for 30 s until it is back / then the next report has all of them, and
/// says over how long.
#[test]
fn c139_what_happened_without_a_stream_is_in_the_next_report() {
    let (mut played, load) = Played::reporting(5);
    rpc(&load);
    played.report();
    played.close();
    for _ in 0..30 {
        rpc(&load);
        played.now += Duration::from_secs(1);
    }
    played.open();
    played.respond(everything(5));
    rpc(&load);
    let stats = played.report();
    assert_eq!(counts(&stats[0].upstream_locality_stats[0]), [31, 31, 0, 0]);
    assert_eq!(window(&stats[0]), Duration::from_secs(35));
}

/// given a cluster without traffic / then that is told once; when there is traffic / then it is told; when none again,
/// for long / then that is told once; and a window never spans the silence.
#[test]
fn c140_that_nothing_happens_is_told_once() {
    let (mut played, load) = Played::reporting(5);
    let busy = played.enter("b");
    let mut told = Vec::new();
    for tick in 0..6 {
        rpc(&busy);
        if tick == 3 {
            rpc(&load);
        }
        let stats = played.report();
        told.push(names(&stats).contains(&"a"));
        assert!(stats.iter().all(|s| window(s) == Duration::from_secs(5)));
    }
    assert_eq!(told, [true, false, false, true, true, false]);
}

/// given nothing to tell of any cluster / then nothing is sent.
#[test]
fn c140_a_report_of_nothing_is_not_sent() {
    let (mut played, _load) = Played::reporting(5);
    played.report();
    for _ in 0..3 {
        played.wait();
        assert!(played.poll().is_empty());
    }
}
