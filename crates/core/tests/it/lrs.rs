//! The reporter of loads, played against a server that the scenario speaks for.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_core::lrs::{ClusterKey, ClusterLoad, Reporter, Transmit};
use oxds_core::resource::LocalityId;
use oxds_core::time::Instant;
use oxds_types::discovery::{Duration as ProtoDuration, Node};

/// A reporter and the time.
struct Played {
    reporter: Reporter,
    now: Instant,
}

impl Played {
    fn new() -> Self {
        let node = Node {
            id: "node-1".to_owned(),
            client_features: vec!["other".to_owned()],
            ..Node::default()
        };
        Self {
            reporter: Reporter::new(node),
            now: Instant::EPOCH,
        }
    }

    /// A reporter whose stream is open and has said who it is, with one cluster in use.
    fn introduced() -> (Self, Arc<ClusterLoad>) {
        let mut played = Self::new();
        let load = played.enter("a");
        played.open();
        (played, load)
    }

    /// The same, told to report everything at this interval.
    fn reporting(seconds: i64) -> (Self, Arc<ClusterLoad>) {
        let (mut played, load) = Self::introduced();
        played.respond(everything(seconds));
        (played, load)
    }

    fn enter(&mut self, cluster: &str) -> Arc<ClusterLoad> {
        self.reporter.enter(self.now, &key(cluster))
    }

    fn leave(&mut self, cluster: &str) {
        self.reporter.leave(self.now, &key(cluster));
    }

    fn open(&mut self) {
        assert_eq!(self.poll(), [Transmit::Open]);
        self.reporter.handle_opened();
        assert_eq!(self.requests().len(), 1, "it says who it is");
    }

    fn respond(&mut self, response: LoadStatsResponse) {
        self.reporter.handle_response(self.now, response);
    }

    fn close(&mut self) {
        self.reporter.handle_closed(self.now, u64::MAX / 2);
    }

    fn poll(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.reporter.poll_transmit(self.now)).collect()
    }

    fn requests(&mut self) -> Vec<LoadStatsRequest> {
        let requests = self.poll().into_iter().map(|transmit| match transmit {
            Transmit::Request(request) => *request,
            other => panic!("not a request: {other:?}"),
        });
        requests.collect()
    }

    /// Lets the time pass to the next timeout, and says how long that took.
    fn wait(&mut self) -> Duration {
        let at = self.reporter.poll_timeout().expect("a timeout");
        let waited = at - self.now;
        self.now += waited;
        waited
    }

    /// Lets the time pass until something is due, which is one report.
    fn report(&mut self) -> Vec<ClusterStats> {
        self.wait();
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "one report is due");
        requests.remove(0).cluster_stats
    }
}

fn key(cluster: &str) -> ClusterKey {
    ClusterKey::new(cluster, format!("{cluster}-eds"))
}

fn here() -> LocalityId {
    LocalityId {
        region: "eu".into(),
        zone: "1".into(),
        sub_zone: "a".into(),
    }
}

fn orders(clusters: &[&str], seconds: i64) -> LoadStatsResponse {
    LoadStatsResponse {
        clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
        load_reporting_interval: Some(ProtoDuration { seconds, nanos: 0 }),
        ..LoadStatsResponse::default()
    }
}

fn everything(seconds: i64) -> LoadStatsResponse {
    LoadStatsResponse {
        send_all_clusters: true,
        ..orders(&[], seconds)
    }
}

fn names(stats: &[ClusterStats]) -> Vec<&str> {
    stats
        .iter()
        .map(|stats| stats.cluster_name.as_str())
        .collect()
}

/// Issued, succeeded, failed, in progress.
fn counts(stats: &UpstreamLocalityStats) -> [u64; 4] {
    [
        stats.total_issued_requests,
        stats.total_successful_requests,
        stats.total_error_requests,
        stats.total_requests_in_progress,
    ]
}

fn rpc(load: &ClusterLoad) {
    let place = load.locality(&here());
    place.begin();
    place.succeed();
}

fn window(stats: &ClusterStats) -> Duration {
    let window = stats.load_report_interval.unwrap();
    let nanos = window.nanos.unsigned_abs();
    Duration::new(window.seconds.unsigned_abs(), nanos)
}

#[test]
fn c129_who_counts_nothing_does_not_connect() {
    let mut played = Played::new();
    assert!(played.poll().is_empty());
    assert_eq!(played.reporter.poll_timeout(), None);
    played.enter("a");
    assert_eq!(played.poll(), [Transmit::Open]);
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
    assert_eq!(played.poll(), [Transmit::Finish]);
    assert!(played.reporter.is_idle());
    assert_eq!(played.reporter.poll_timeout(), None);
}

/// given a stream that the server has not answered, and nothing counted / when the last use ends / then it is closed.
#[test]
fn c130_a_stream_without_orders_is_given_up() {
    let (mut played, _load) = Played::introduced();
    played.leave("a");
    assert_eq!(played.poll(), [Transmit::Close]);
    let mut played = Played::new();
    played.enter("a");
    played.poll();
    played.leave("a");
    assert_eq!(played.poll(), [Transmit::Close], "while it connects, too");
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

/// given orders for one of two clusters, every 10 s / then it is reported, and the other is not, every 10 s; without its
/// node.
#[test]
fn c133_what_was_asked_for_is_reported_at_the_interval() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(orders(&["a"], 10));
    for _ in 0..3 {
        rpc(&a);
        rpc(&b);
        assert_eq!(played.wait(), Duration::from_secs(10));
        let requests = played.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].node, None);
        assert_eq!(names(&requests[0].cluster_stats), ["a"]);
    }
    // The other one was not wanted: when it is, its window is short, and what came before is void.
    played.respond(orders(&["a", "b"], 10));
    rpc(&b);
    let stats = played.report();
    let b = stats
        .iter()
        .find(|stats| stats.cluster_name == "b")
        .unwrap();
    assert_eq!(counts(&b.upstream_locality_stats[0])[0], 1);
    assert_eq!(window(b), Duration::from_secs(10));
}

#[test]
fn c134_all_are_reported_where_all_are_wanted_whatever_the_list() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(LoadStatsResponse {
        clusters: vec!["b".to_owned()],
        ..everything(1)
    });
    rpc(&a);
    rpc(&b);
    assert_eq!(names(&played.report()), ["a", "b"]);
}

/// given reports every 10 s / when, 4 s after one, the server asks for 2 s and another cluster / then a report is due at
/// once, of that cluster, and the next after 2 s; when the same is said again and again / then reports do not wait.
#[test]
fn c135_new_orders_take_effect_at_once() {
    let (mut played, a) = Played::introduced();
    let b = played.enter("b");
    played.respond(orders(&["a"], 10));
    played.report();
    rpc(&a);
    rpc(&b);
    played.now += Duration::from_secs(4);
    played.respond(orders(&["b"], 2));
    assert_eq!(played.wait(), Duration::ZERO);
    let requests = played.requests();
    assert_eq!(names(&requests[0].cluster_stats), ["b"]);
    assert_eq!(
        window(&requests[0].cluster_stats[0]),
        Duration::from_secs(4)
    );

    rpc(&b);
    played.now += Duration::from_secs(1);
    played.respond(orders(&["b"], 2));
    assert_eq!(played.wait(), Duration::from_secs(1));
    assert_eq!(names(&played.requests()[0].cluster_stats), ["b"]);
}

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
    assert_eq!(played.poll(), [Transmit::Open]);
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
    let Transmit::Request(report) = &last[0] else {
        panic!("{last:?}")
    };
    let stats = &report.cluster_stats[0];
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
    assert_eq!(window(stats), Duration::from_secs(1));
    assert_eq!(last[1], Transmit::Finish);
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
                [Transmit::Request(_), Transmit::Finish]
            ));
        } else {
            assert_eq!(played.wait(), Duration::from_secs(1));
            assert_eq!(played.poll(), [Transmit::Close]);
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

impl Played {
    /// Lets the time pass, and every attempt fail, until there is no timer.
    fn wait_out(&mut self) {
        while self.reporter.poll_timeout().is_some() {
            self.wait();
            if !self.poll().is_empty() {
                self.close();
            }
        }
    }
}
