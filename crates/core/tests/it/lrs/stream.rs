//! Start, first request and end of the LRS stream.

use std::time::Duration;

use oxds_core::lrs::LrsTransmit;

use super::{Played, counts, everything, rpc, window};

#[test]
fn c129_reporter_without_clusters_does_not_connect() {
    let mut played = Played::new();
    assert!(played.poll().is_empty());
    assert_eq!(played.reporter.poll_timeout(), None);
    played.enter("a");
    assert_eq!(played.poll(), [LrsTransmit::Open]);
}

/// Given two clusters, one of them used twice; then there is one stream. When all but one use has ended, then it stays.
/// When the last one has ended, then the stream ends.
#[test]
fn c130_one_stream_while_a_cluster_is_used() {
    let (mut played, _load) = Played::reporting(5);
    played.enter("a");
    played.enter("b");
    assert!(played.poll().is_empty(), "no other stream");
    played.leave("a");
    played.leave("b");
    played.report();
    played.leave("a");
    assert_eq!(played.poll(), [LrsTransmit::Finish]);
    assert!(played.reporter.is_idle());
    assert_eq!(played.reporter.poll_timeout(), None);
}

/// Given a stream without settings and without counts. When the last use ends, then it is closed.
#[test]
fn c130_stream_without_settings_is_closed_when_unused() {
    let (mut played, _load) = Played::introduced();
    played.leave("a");
    assert_eq!(played.poll(), [LrsTransmit::Close]);
    let mut played = Played::new();
    played.enter("a");
    played.poll();
    played.leave("a");
    assert_eq!(
        played.poll(),
        [LrsTransmit::Close],
        "while it connects, too"
    );
}

#[test]
fn c132_first_request_has_only_the_node() {
    let mut played = Played::new();
    rpc(&played.enter("a"));
    played.poll();
    played.reporter.handle_opened();
    let first = played.requests().remove(0);
    let node = first.node.unwrap();
    assert_eq!(node.id, "node-1");
    assert_eq!(
        node.client_features,
        ["other", "envoy.lrs.supports_send_all_clusters"]
    );
    assert!(first.cluster_stats.is_empty());
    assert_eq!(played.reporter.poll_timeout(), None, "it was told nothing");
    assert!(played.poll().is_empty());
}

/// Given a server that is unreachable, or has no LRS; then it is tried again after 1 s, 1.6 s, …. When it has answered
/// once, then the backoff starts again from 1 s.
#[test]
fn c141_failed_server_is_retried_with_ads_backoff() {
    let mut played = Played::new();
    let _load = played.enter("a");
    let delay = |played: &mut Played| {
        played.close();
        assert!(played.poll().is_empty(), "not at once");
        played.wait().as_secs_f64()
    };
    let mut delays = Vec::new();
    assert_eq!(played.poll(), [LrsTransmit::Open]);
    delays.push(delay(&mut played));
    played.open();
    delays.push(delay(&mut played));
    played.open();
    played.respond(everything(5));
    delays.push(delay(&mut played));
    for (delay, expected) in delays.iter().zip([1.0, 1.6, 1.0]) {
        assert!((delay - expected).abs() < 0.01, "{delays:?}");
    }
}

/// Given a reporting stream. When the last use ends, then a final report is sent at once, and the stream ends.
#[test]
fn c142_last_use_ends_with_a_final_report() {
    let (mut played, load) = Played::reporting(5);
    played.report();
    rpc(&load);
    played.now += Duration::from_secs(1);
    played.leave("a");
    let last = played.poll();
    assert_eq!(last.len(), 2);
    let LrsTransmit::Request(report) = &last[0] else {
        panic!("{last:?}")
    };
    let stats = &report.cluster_stats[0];
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
    assert_eq!(window(stats), Duration::from_secs(1));
    assert_eq!(last[1], LrsTransmit::Finish);
    assert!(played.reporter.is_idle());
}

/// Given counts, and a server that has not answered yet. When the last use ends, then the server has one second. If it
/// answers in time, then the final report is sent, else the stream is closed.
#[test]
fn c142_final_report_waits_one_second_for_a_stream() {
    for in_time in [true, false] {
        let (mut played, load) = Played::introduced();
        rpc(&load);
        played.leave("a");
        assert!(played.poll().is_empty());
        if in_time {
            played.now += Duration::from_millis(900);
            played.respond(everything(5));
            assert!(matches!(
                &played.poll()[..],
                [LrsTransmit::Request(_), LrsTransmit::Finish]
            ));
        } else {
            assert_eq!(played.wait(), Duration::from_secs(1));
            assert_eq!(played.poll(), [LrsTransmit::Close]);
        }
        assert!(played.reporter.is_idle());
        assert_eq!(played.reporter.poll_timeout(), None);
    }
}

/// Given counts, and an unreachable server. When the last use ends, then the counts are dropped after a second, and
/// there is no attempt until the next use; the backoff goes on.
#[test]
fn c142_unreachable_server_gets_no_final_report() {
    let (mut played, load) = Played::reporting(5);
    rpc(&load);
    played.close();
    played.leave("a");
    assert_eq!(played.wait(), Duration::from_secs(1), "of both timers");
    played.poll();
    played.wait_out();
    assert!(played.reporter.is_idle());
}
