//! Reports added up by (node, cluster, service name, locality), and how fast they come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use oxds_core::time::Instant;
use serde::Serialize;

use super::room::{Names, Room, cost};

/// What was not reported for this long has no client any more: a dozen of missed reports.
const AGE: Duration = Duration::from_secs(60);
/// The longest time over which a rate is told; single seconds are kept for as long.
const WINDOW: u64 = 60;
/// Localities, categories of drops and metrics that a row may have of each: far more than any client has.
const MAX_NAMES: usize = 256;

/// Requests, since the client's first report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Begun.
    pub issued: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Ended with an error.
    pub errors: u64,
}

/// A metric that backends report about themselves (ORCA), by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Metric {
    /// Requests that ended with it.
    pub requests: u64,
    /// The sum of what they said.
    pub total: f64,
}

/// What one node reported about one locality of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalityLoad {
    /// Region, zone and sub-zone.
    pub locality: [String; 3],
    /// All requests.
    pub requests: Counts,
    /// Requests that were in progress at the latest report.
    pub in_progress: u64,
    /// Requests issued per second, over the last ten seconds.
    pub rate_10s: f64,
    /// Requests issued per second, over the last minute.
    pub rate_60s: f64,
    /// Metrics: named ones, and the utilizations of gRFC A85.
    pub metrics: BTreeMap<String, Metric>,
}

/// What one node reported about one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterLoad {
    /// `node.id` of the client.
    pub node: String,
    /// The cluster.
    pub cluster: String,
    /// Its `eds_service_name`, if it has one.
    pub service: String,
    /// Requests dropped by intent, in all …
    pub dropped: u64,
    /// … and by category.
    pub drops: BTreeMap<String, u64>,
    /// By locality.
    pub localities: Vec<LocalityLoad>,
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<Key, Row>,
    room: Room,
    /// When it was last looked what can be forgotten.
    swept: Instant,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    node: String,
    cluster: String,
    service: String,
}

#[derive(Debug, Default)]
struct Row {
    heard: Instant,
    /// What its entries take.
    bytes: usize,
    dropped: u64,
    drops: BTreeMap<String, u64>,
    localities: BTreeMap<[String; 3], Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    requests: Counts,
    in_progress: u64,
    metrics: BTreeMap<String, Metric>,
    /// Requests issued, by the second in which they were reported; oldest first, none older than the window.
    issued: VecDeque<(u64, u64)>,
}

impl Ledger {
    /// Adds a report to what the node reported before. False: there is no room for it.
    pub(super) fn record(&self, now: Instant, node: &str, report: &ClusterStats) -> bool {
        let key = Key {
            node: node.to_owned(),
            cluster: report.cluster_name.clone(),
            service: report.cluster_service_name.clone(),
        };
        let mut all = self.lock();
        if !all.rows.contains_key(&key) && !all.room_for(&key, now) {
            return false;
        }
        let Rows { rows, room, .. } = &mut *all;
        rows.entry(key).or_default().add(now, report, room);
        true
    }

    /// All that is known, after what has aged out was forgotten.
    pub(super) fn loads(&self, now: Instant) -> Vec<ClusterLoad> {
        let mut all = self.lock();
        all.forget(now);
        let rows = all.rows.iter();
        rows.map(|(key, row)| row.load(key, now)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// Takes the room for one more row. It is not looked for more often than once per second: that takes as long as
    /// there are rows.
    fn room_for(&mut self, key: &Key, now: Instant) -> bool {
        let cost = cost::<Key, Row>(key, 0);
        if self.room.take(cost) {
            return true;
        }
        if now.saturating_since(self.swept) < Duration::from_secs(1) {
            return false;
        }
        self.swept = now;
        self.forget(now);
        self.room.take(cost)
    }

    fn forget(&mut self, now: Instant) {
        let Self { rows, room, .. } = self;
        rows.retain(|key, row| {
            let stays = now.saturating_since(row.heard) < AGE;
            if !stays {
                room.give_back(cost::<Key, Row>(key, 0) + row.bytes);
            }
            stays
        });
    }
}

impl Row {
    fn add(&mut self, now: Instant, report: &ClusterStats, room: &mut Room) {
        let free = room.free();
        self.heard = now;
        self.dropped = self.dropped.saturating_add(report.total_dropped_requests);
        for drop in &report.dropped_requests {
            if let Some(sum) = slot(&mut self.drops, &drop.category, room) {
                *sum = sum.saturating_add(drop.dropped_count);
            }
        }
        for stats in &report.upstream_locality_stats {
            let locality = stats.locality.clone().unwrap_or_default();
            let Locality {
                region,
                zone,
                sub_zone,
            } = locality;
            if let Some(cell) = slot(&mut self.localities, &[region, zone, sub_zone], room) {
                cell.add(now, stats, room);
            }
        }
        self.bytes += free - room.free();
    }

    fn load(&self, key: &Key, now: Instant) -> ClusterLoad {
        let locality = |(locality, cell): (&[String; 3], &Cell)| LocalityLoad {
            locality: locality.clone(),
            requests: cell.requests,
            in_progress: cell.in_progress,
            rate_10s: cell.rate(now, 10),
            rate_60s: cell.rate(now, WINDOW),
            metrics: cell.metrics.clone(),
        };
        ClusterLoad {
            node: key.node.clone(),
            cluster: key.cluster.clone(),
            service: key.service.clone(),
            dropped: self.dropped,
            drops: self.drops.clone(),
            localities: self.localities.iter().map(locality).collect(),
        }
    }
}

impl Cell {
    /// Counts are since the last report, but for those in progress, which are as of now (`load_report.proto`).
    fn add(&mut self, now: Instant, stats: &UpstreamLocalityStats, room: &mut Room) {
        let sum = &mut self.requests;
        sum.issued = sum.issued.saturating_add(stats.total_issued_requests);
        sum.succeeded = sum
            .succeeded
            .saturating_add(stats.total_successful_requests);
        sum.errors = sum.errors.saturating_add(stats.total_error_requests);
        self.in_progress = stats.total_requests_in_progress;
        for metric in &stats.load_metric_stats {
            let finished = metric.num_requests_finished_with_metric;
            let total = metric.total_metric_value;
            self.add_metric(&metric.metric_name, finished, total, room);
        }
        for (name, metric) in [
            ("cpu_utilization", &stats.cpu_utilization),
            ("mem_utilization", &stats.mem_utilization),
            ("application_utilization", &stats.application_utilization),
        ] {
            if let Some(metric) = metric {
                let finished = metric.num_requests_finished_with_metric;
                self.add_metric(name, finished, metric.total_metric_value, room);
            }
        }
        let second = now.since_epoch().as_secs();
        self.issued.retain(|(at, _)| at + WINDOW > second);
        match self.issued.back_mut() {
            Some((at, issued)) if *at == second => {
                *issued = issued.saturating_add(stats.total_issued_requests);
            }
            _ => self.issued.push_back((second, stats.total_issued_requests)),
        }
    }

    /// What is no number is passed over: a sum would never be one again.
    fn add_metric(&mut self, name: &str, finished: u64, total: f64, room: &mut Room) {
        if !total.is_finite() {
            return;
        }
        if let Some(metric) = slot(&mut self.metrics, &name.to_owned(), room) {
            metric.requests = metric.requests.saturating_add(finished);
            metric.total = (metric.total + total).clamp(f64::MIN, f64::MAX);
        }
    }

    /// Requests issued per second, over the last `seconds`.
    fn rate(&self, now: Instant, seconds: u64) -> f64 {
        let second = now.since_epoch().as_secs();
        let recent = self.issued.iter().filter(|(at, _)| at + seconds > second);
        let issued: u64 = recent.fold(0, |sum, (_, issued)| sum.saturating_add(*issued));
        issued as f64 / seconds as f64
    }
}

/// The entry under a key; a new one if there is room.
fn slot<'a, K: Names + Ord + Clone, V: Default>(
    map: &'a mut BTreeMap<K, V>,
    key: &K,
    room: &mut Room,
) -> Option<&'a mut V> {
    if !map.contains_key(key) && (map.len() >= MAX_NAMES || !room.take(cost::<K, V>(key, WINDOW))) {
        return None;
    }
    Some(map.entry(key.clone()).or_default())
}

impl Names for Key {
    fn bytes(&self) -> usize {
        self.node.len() + self.cluster.len() + self.service.len()
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::endpoint::v3::cluster_stats::DroppedRequests;
    use envoy_types::pb::envoy::config::endpoint::v3::{
        EndpointLoadMetricStats, UnnamedEndpointLoadMetricStats,
    };

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_secs(seconds))
    }

    fn report(zone: &str, issued: u64) -> ClusterStats {
        ClusterStats {
            cluster_name: "shop".into(),
            cluster_service_name: "shop-eds".into(),
            total_dropped_requests: 3,
            dropped_requests: vec![DroppedRequests {
                category: "lb".into(),
                dropped_count: 2,
            }],
            upstream_locality_stats: vec![UpstreamLocalityStats {
                locality: Some(Locality {
                    zone: zone.into(),
                    ..Locality::default()
                }),
                total_issued_requests: issued,
                total_successful_requests: issued - 1,
                total_error_requests: 1,
                total_requests_in_progress: 7,
                load_metric_stats: vec![EndpointLoadMetricStats {
                    metric_name: "queue".into(),
                    num_requests_finished_with_metric: 2,
                    total_metric_value: 0.5,
                }],
                cpu_utilization: Some(UnnamedEndpointLoadMetricStats {
                    num_requests_finished_with_metric: 4,
                    total_metric_value: 1.5,
                }),
                ..UpstreamLocalityStats::default()
            }],
            ..ClusterStats::default()
        }
    }

    /// Given reports of two nodes and two localities, counts add up by each; what is in progress does not add up.
    #[test]
    fn s66_reports_add_up_by_node_cluster_and_locality() {
        let ledger = Ledger::default();
        for (second, node, zone, issued) in [
            (1, "a", "x", 10),
            (6, "a", "x", 30),
            (6, "a", "y", 5),
            (6, "b", "x", 1),
        ] {
            assert!(ledger.record(at(second), node, &report(zone, issued)));
        }
        let loads = ledger.loads(at(7));
        assert_eq!(loads.len(), 2);
        assert_eq!((&*loads[0].node, &*loads[0].service), ("a", "shop-eds"));
        assert_eq!((loads[0].dropped, loads[0].drops["lb"]), (9, 6));
        let x = &loads[0].localities[0];
        let expected = Counts {
            issued: 40,
            succeeded: 38,
            errors: 2,
        };
        assert_eq!((x.requests, x.in_progress), (expected, 7));
        assert_eq!(
            (x.metrics["queue"].requests, x.metrics["queue"].total),
            (4, 1.0)
        );
        let cpu = x.metrics["cpu_utilization"];
        assert_eq!((cpu.requests, cpu.total), (8, 3.0));
        assert_eq!(loads[1].localities[0].requests.issued, 1);
    }

    /// Given 100 requests reported every five seconds for two minutes, the rate is 20/s over both windows; ten seconds
    /// later, nothing came within the short one.
    #[test]
    fn s66_rates_cover_ten_seconds_and_a_minute() {
        let ledger = Ledger::default();
        for second in (5..=120).step_by(5) {
            ledger.record(at(second), "a", &report("x", 100));
        }
        let rates = |second| {
            let load = ledger.loads(at(second)).remove(0).localities.remove(0);
            (load.rate_10s, load.rate_60s)
        };
        assert_eq!(rates(121), (20.0, 20.0));
        assert_eq!(rates(131).0, 0.0);
    }

    #[test]
    fn s67_a_client_that_vanished_ages_out() {
        let ledger = Ledger::default();
        ledger.record(at(1), "gone", &report("x", 1));
        ledger.record(at(30), "here", &report("x", 1));
        assert_eq!(ledger.loads(at(60)).len(), 2);
        assert_eq!(ledger.loads(at(61)).len(), 1);
    }

    /// Given a client that makes up names, its rows are bounded.
    #[test]
    fn s60_made_up_names_are_bounded() {
        let ledger = Ledger::default();
        for zone in 0..2 * MAX_NAMES {
            ledger.record(at(1), "a", &report(&zone.to_string(), 1));
        }
        assert_eq!(ledger.loads(at(1))[0].localities.len(), MAX_NAMES);
    }

    /// Given clients that make up clusters with long names, all that they name fits what all may take; when they are gone,
    /// there is room again.
    #[test]
    fn s60_made_up_clusters_are_bounded() {
        let ledger = Ledger::default();
        let name = |i: usize| format!("{i}{}", "x".repeat(4 << 20));
        let mut clusters = 0;
        let mut record = |second| {
            clusters += 1;
            let mut report = report("", 1);
            report.cluster_name = name(clusters);
            ledger.record(at(second), "a", &report)
        };
        let fitting = (0..200).take_while(|_| record(1)).count();
        assert!((100..=128).contains(&fitting), "{fitting}");
        assert!(!record(50));
        assert!(record(61));
        assert_eq!(ledger.loads(at(61)).len(), 1);
        drop(ledger.loads(at(200)));
        assert_eq!(ledger.lock().room.free(), Room::default().free());
    }
}
