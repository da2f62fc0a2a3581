//! The load reporter, against a server that the test plays.

mod counts;
mod orders;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_core::lrs::{ClusterKey, ClusterLoad, LrsTransmit, Reporter};
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

    /// A reporter with an open stream that has sent its first request, and one cluster in use.
    fn introduced() -> (Self, Arc<ClusterLoad>) {
        let mut played = Self::new();
        let load = played.enter("a");
        played.open();
        (played, load)
    }

    /// The same, with settings to report all clusters at this interval.
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
        assert_eq!(self.poll(), [LrsTransmit::Open]);
        self.reporter.handle_opened();
        assert_eq!(self.requests().len(), 1, "it says who it is");
    }

    fn respond(&mut self, response: LoadStatsResponse) {
        self.reporter.handle_response(self.now, response);
    }

    fn close(&mut self) {
        self.reporter.handle_closed(self.now, u64::MAX / 2);
    }

    fn poll(&mut self) -> Vec<LrsTransmit> {
        std::iter::from_fn(|| self.reporter.poll_transmit(self.now)).collect()
    }

    fn requests(&mut self) -> Vec<LoadStatsRequest> {
        let requests = self.poll().into_iter().map(|transmit| match transmit {
            LrsTransmit::Request(request) => *request,
            other => panic!("not a request: {other:?}"),
        });
        requests.collect()
    }

    /// Advances the time to the next timeout, and returns how long that took.
    fn wait(&mut self) -> Duration {
        let at = self.reporter.poll_timeout().expect("a timeout");
        let waited = at - self.now;
        self.now += waited;
        waited
    }

    /// Advances the time until the one report that is due.
    fn report(&mut self) -> Vec<ClusterStats> {
        self.wait();
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "one report is due");
        requests.remove(0).cluster_stats
    }

    /// Advances the time, with every attempt failing, until no timer is armed.
    fn wait_out(&mut self) {
        while self.reporter.poll_timeout().is_some() {
            self.wait();
            if !self.poll().is_empty() {
                self.close();
            }
        }
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
