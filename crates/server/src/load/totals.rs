//! Totals of load reports by (node, cluster, service name, locality), and request rates.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use oxds_core::time::Instant;
use serde::Serialize;

use super::budget::{Budget, NameBytes, cost};

/// The time after which a row without a report is deleted: twelve reports at the default interval.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The longest window of a rate, in seconds. The counts of single seconds are kept for as long.
const WINDOW: u64 = 60;
/// The largest number of localities, drop categories and metrics in a row, each. Real clients have far fewer.
const MAX_NAMES: usize = 256;

/// Numbers of requests, since the client's first report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests that were started.
    pub issued: u64,
    /// Requests that ended with success.
    pub succeeded: u64,
    /// Requests that ended with an error.
    pub errors: u64,
}

/// A metric that backends report about themselves (ORCA), by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Metric {
    /// The requests that ended with this metric.
    pub requests: u64,
    /// The sum of the values.
    pub total: f64,
}

/// The load of one locality of a cluster, as one node reported it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalityLoad {
    /// Region, zone and sub-zone.
    pub locality: [String; 3],
    /// The requests since the first report.
    pub requests: Counts,
    /// The requests that were in progress at the latest report.
    pub in_progress: u64,
    /// Requests issued per second, over the last ten seconds.
    pub rate_10s: f64,
    /// Requests issued per second, over the last minute.
    pub rate_60s: f64,
    /// Metrics of backends by name, including the utilizations of gRFC A85.
    pub metrics: BTreeMap<String, Metric>,
}

/// The load of one cluster, as one node reported it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterLoad {
    /// `node.id` of the client.
    pub node: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The `eds_service_name` of the cluster; empty if it has none.
    pub service: String,
    /// The requests that the client dropped on purpose, since its first report.
    pub dropped: u64,
    /// Those of `dropped` that have a category, by category.
    pub drops: BTreeMap<String, u64>,
    /// The load of each locality.
    pub localities: Vec<LocalityLoad>,
}

/// The totals of all clients.
#[derive(Debug, Default)]
pub(super) struct LoadTotals(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<RowKey, Row>,
    budget: Budget,
    /// The time of the latest search for expired rows.
    swept: Instant,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    node: String,
    cluster: String,
    service: String,
}

#[derive(Debug, Default)]
struct Row {
    /// The time of the latest report.
    reported: Instant,
    /// The part of the budget that the row's entries take.
    bytes: usize,
    dropped: u64,
    drops: BTreeMap<String, u64>,
    localities: BTreeMap<[String; 3], LocalityTotals>,
}

#[derive(Debug, Default)]
struct LocalityTotals {
    requests: Counts,
    in_progress: u64,
    metrics: BTreeMap<String, Metric>,
    /// Issued requests by the second of their report. Oldest first, none older than `WINDOW`.
    issued: VecDeque<(u64, u64)>,
}

impl LoadTotals {
    /// Adds a report. Returns `false` if the budget has no room for it.
    pub(super) fn record(&self, now: Instant, node: &str, report: &ClusterStats) -> bool {
        let key = RowKey {
            node: node.to_owned(),
            cluster: report.cluster_name.clone(),
            service: report.cluster_service_name.clone(),
        };
        let mut all = self.lock();
        if !all.rows.contains_key(&key) && !all.make_room(&key, now) {
            return false;
        }
        let Rows { rows, budget, .. } = &mut *all;
        rows.entry(key).or_default().add(now, report, budget);
        true
    }

    /// Returns all rows that have not expired, and deletes the others.
    pub(super) fn loads(&self, now: Instant) -> Vec<ClusterLoad> {
        let mut all = self.lock();
        all.expire(now);
        let rows = all.rows.iter();
        rows.map(|(key, row)| row.load(key, now)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// Takes the budget for one more row, and deletes expired rows if it is spent. Such a search costs O(rows), so there is
    /// at most one per second.
    fn make_room(&mut self, key: &RowKey, now: Instant) -> bool {
        let cost = cost::<RowKey, Row>(key, 0);
        if self.budget.take(cost) {
            return true;
        }
        if now.saturating_since(self.swept) < Duration::from_secs(1) {
            return false;
        }
        self.swept = now;
        self.expire(now);
        self.budget.take(cost)
    }

    fn expire(&mut self, now: Instant) {
        let Self { rows, budget, .. } = self;
        rows.retain(|key, row| {
            let stays = now.saturating_since(row.reported) < MAX_AGE;
            if !stays {
                budget.give_back(cost::<RowKey, Row>(key, 0) + row.bytes);
            }
            stays
        });
    }
}

impl Row {
    fn add(&mut self, now: Instant, report: &ClusterStats, budget: &mut Budget) {
        let free = budget.free();
        self.reported = now;
        self.dropped = self.dropped.saturating_add(report.total_dropped_requests);
        for drop in &report.dropped_requests {
            if let Some(sum) = entry(&mut self.drops, &drop.category, budget) {
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
            if let Some(totals) = entry(&mut self.localities, &[region, zone, sub_zone], budget) {
                totals.add(now, stats, budget);
            }
        }
        self.bytes += free - budget.free();
    }

    fn load(&self, key: &RowKey, now: Instant) -> ClusterLoad {
        let locality = |(locality, totals): (&[String; 3], &LocalityTotals)| LocalityLoad {
            locality: locality.clone(),
            requests: totals.requests,
            in_progress: totals.in_progress,
            rate_10s: totals.rate(now, 10),
            rate_60s: totals.rate(now, WINDOW),
            metrics: totals.metrics.clone(),
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

impl LocalityTotals {
    /// Adds a report. `load_report.proto`: counts are since the last report, except for requests in progress, which are
    /// those at present.
    fn add(&mut self, now: Instant, stats: &UpstreamLocalityStats, budget: &mut Budget) {
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
            self.add_metric(&metric.metric_name, finished, total, budget);
        }
        for (name, metric) in [
            ("cpu_utilization", &stats.cpu_utilization),
            ("mem_utilization", &stats.mem_utilization),
            ("application_utilization", &stats.application_utilization),
        ] {
            if let Some(metric) = metric {
                let finished = metric.num_requests_finished_with_metric;
                self.add_metric(name, finished, metric.total_metric_value, budget);
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

    fn add_metric(&mut self, name: &str, finished: u64, total: f64, budget: &mut Budget) {
        // With NaN or infinity the sum would never be a number again.
        if !total.is_finite() {
            return;
        }
        if let Some(metric) = entry(&mut self.metrics, &name.to_owned(), budget) {
            metric.requests = metric.requests.saturating_add(finished);
            metric.total = (metric.total + total).clamp(f64::MIN, f64::MAX);
        }
    }

    /// Returns the issued requests per second, over the last `seconds`.
    fn rate(&self, now: Instant, seconds: u64) -> f64 {
        let second = now.since_epoch().as_secs();
        let recent = self.issued.iter().filter(|(at, _)| at + seconds > second);
        let issued: u64 = recent.fold(0, |sum, (_, issued)| sum.saturating_add(*issued));
        issued as f64 / seconds as f64
    }
}

/// Returns the entry of a key. Creates it if the map and the budget have room, else returns `None`.
fn entry<'a, K: NameBytes + Ord + Clone, V: Default>(
    map: &'a mut BTreeMap<K, V>,
    key: &K,
    budget: &mut Budget,
) -> Option<&'a mut V> {
    let is_full = map.len() >= MAX_NAMES;
    if !map.contains_key(key) && (is_full || !budget.take(cost::<K, V>(key, WINDOW))) {
        return None;
    }
    Some(map.entry(key.clone()).or_default())
}

impl NameBytes for RowKey {
    fn name_bytes(&self) -> usize {
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

    /// Given reports of two nodes and two localities, then counts are added up for each, but not requests in progress.
    #[test]
    fn s66_reports_add_up_by_node_cluster_and_locality() {
        let totals = LoadTotals::default();
        for (second, node, zone, issued) in [
            (1, "a", "x", 10),
            (6, "a", "x", 30),
            (6, "a", "y", 5),
            (6, "b", "x", 1),
        ] {
            assert!(totals.record(at(second), node, &report(zone, issued)));
        }
        let loads = totals.loads(at(7));
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

    /// Given 100 requests reported every five seconds for two minutes, then the rate is 20/s over both windows. Ten
    /// seconds later, the rate over ten seconds is zero.
    #[test]
    fn s66_rates_cover_10_and_60_seconds() {
        let totals = LoadTotals::default();
        for second in (5..=120).step_by(5) {
            totals.record(at(second), "a", &report("x", 100));
        }
        let rates = |second| {
            let load = totals.loads(at(second)).remove(0).localities.remove(0);
            (load.rate_10s, load.rate_60s)
        };
        assert_eq!(rates(121), (20.0, 20.0));
        assert_eq!(rates(131).0, 0.0);
    }

    #[test]
    fn s67_rows_of_a_vanished_client_expire() {
        let totals = LoadTotals::default();
        totals.record(at(1), "gone", &report("x", 1));
        totals.record(at(30), "here", &report("x", 1));
        assert_eq!(totals.loads(at(60)).len(), 2);
        assert_eq!(totals.loads(at(61)).len(), 1);
    }

    /// Given a client that invents localities, then their number is bounded.
    #[test]
    fn s60_invented_names_are_bounded() {
        let totals = LoadTotals::default();
        for zone in 0..2 * MAX_NAMES {
            totals.record(at(1), "a", &report(&zone.to_string(), 1));
        }
        assert_eq!(totals.loads(at(1))[0].localities.len(), MAX_NAMES);
    }

    /// Given clients that invent clusters with long names, then all names fit the budget. When the rows expire, then the
    /// budget is free again.
    #[test]
    fn s60_invented_clusters_are_bounded() {
        let totals = LoadTotals::default();
        let name = |i: usize| format!("{i}{}", "x".repeat(4 << 20));
        let mut clusters = 0;
        let mut record = |second| {
            clusters += 1;
            let mut report = report("", 1);
            report.cluster_name = name(clusters);
            totals.record(at(second), "a", &report)
        };
        let fitting = (0..200).take_while(|_| record(1)).count();
        assert!((100..=128).contains(&fitting), "{fitting}");
        assert!(!record(50));
        assert!(record(61));
        assert_eq!(totals.loads(at(61)).len(), 1);
        drop(totals.loads(at(200)));
        assert_eq!(totals.lock().budget.free(), Budget::default().free());
    }
}
