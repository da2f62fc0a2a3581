//! When there is a stream, what it begins with, and how it ends.

use std::time::Duration;

use oxds_core::lrs::LrsTransmit;

use super::{Played, counts, everything, rpc, window};

#[test]
fn c129_who_counts_nothing_does_not_connect() {
    let mut played = Played::new();
    assert!(played.poll().is_empty());
    assert_eq!(played.reporter.poll_timeout(), None);
    played.enter("a");
    assert_eq!(played.poll(), [LrsTransmit::Open]);
}

/// given two clusters, one of them used twice / then there is one stream; when all but one use has ended / then it stays;
/// when the last has ended / then it ends.
#[test]
fn c130_one_stream_for_as_long_as_a_cluster_is_in_use() {
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

/// given a stream that the server has not answered, and nothing counted / when the last use ends / then it is closed.
#[test]
fn c130_a_stream_without_orders_is_given_up() {
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
fn c132_the_first_request_says_who_it_is_and_nothing_else() {
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

/// given a server that cannot be reached, or has no LRS / then it is tried again after 1 s, 1.6 s, …; when it has answered
/// once / then from 1 s again.
#[test]
fn c141_a_server_that_fails_is_tried_again_as_for_ads() {
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

/// given a reporting stream / when the last use ends / then all that has come is told at once, and the stream ended.
#[test]
fn c142_the_last_one_to_leave_tells_what_there_is() {
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

/// given something to tell, and a server that has not answered yet / when the last use ends / then it has one second; when
/// it answers in it / then it is told; else / then the stream is given up.
#[test]
fn c142_the_last_counts_wait_a_second_for_a_stream() {
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

/// given counts, and a server that is away / when the last use ends / then they are forgotten after a second, and it is
/// not tried again until there is a use; the backoff stands.
#[test]
fn c142_a_server_that_is_away_hears_nothing_more() {
    let (mut played, load) = Played::reporting(5);
    rpc(&load);
    played.close();
    played.leave("a");
    assert_eq!(played.wait(), Duration::from_secs(1), "of both timers");
    played.poll();
    played.wait_out();
    assert!(played.reporter.is_idle());
}
