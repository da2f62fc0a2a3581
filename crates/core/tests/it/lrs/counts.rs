//! Counters, and their form in reports.

use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterStats;
use oxds_core::lrs::ClusterKey;
use oxds_core::resource::LocalityId;

use super::{Played, counts, everything, here, names, rpc, window};

/// Given RPCs that started, succeeded, failed; then a report has the counts since the one before, and the RPCs in
/// progress now.
#[test]
fn c136_counts_are_differences_except_in_progress() {
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

/// Given a cluster with two service names, and one that is used 3 s later; then each has its own stats, by locality,
/// with its own interval.
#[test]
fn c137_stats_are_per_cluster_service_and_locality() {
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
    // A late timer makes a longer interval, and the report has its true length.
    rpc(&load);
    played.now += Duration::from_secs(8);
    let stats = played.requests().remove(0).cluster_stats;
    assert_eq!(window(&stats[0]), Duration::from_secs(8));
}

#[test]
fn c138_drops_are_reported_by_category_and_total() {
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

/// Given a stream that breaks. When RPCs go on for 30 s until it is back, then the next report has all of them, with
/// the true interval.
#[test]
fn c139_counts_without_stream_are_in_next_report() {
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

/// Given a cluster without traffic; then one empty report is sent. When there is traffic, then it is reported. When
/// traffic stops for long, then one empty report is sent, and no interval spans the time without reports.
#[test]
fn c140_empty_interval_is_reported_once() {
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

/// Given no counts of any cluster; then no request is sent.
#[test]
fn c140_report_without_stats_is_not_sent() {
    let (mut played, _load) = Played::reporting(5);
    played.report();
    for _ in 0..3 {
        played.wait();
        assert!(played.poll().is_empty());
    }
}
