//! Totals of load reports by (node, cluster, service name, locality), and request rates.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use oxds_core::time::Instant;
use oxds_types::discovery::Duration as ProtoDuration;
use serde::Serialize;

use super::budget::{Budget, NameBytes, cost};
use super::rate::{Coverage, HISTORY_BYTES, History, Period, WINDOW};
use crate::server;

/// The least time after which a row without a report is deleted: twelve reports at the default interval.
const MIN_AGE: Duration = Duration::from_secs(60);
/// The intervals without a report after which a row is deleted.
const MISSED: u32 = 3;
/// The longest interval that a client may report, unless it was asked for a longer one: the row stays for three of them.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// The window of the short rate.
const SHORT_WINDOW: Duration = Duration::from_secs(10);
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
    /// Requests issued per second, over the ten seconds before the latest report. Zero when reports stay out.
    ///
    /// A report counts for the time that it covers (`load_report_interval`), whatever time it came at.
    pub rate_10s: f64,
    /// Requests issued per second, over the minute before the latest report.
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
    rows: BTreeMap<LoadKey, Row>,
    budget: Budget,
    /// The time of the latest search for expired rows.
    swept: Instant,
}

/// Node, cluster and service name of a load, which is the order of loads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LoadKey {
    pub(crate) node: String,
    pub(crate) cluster: String,
    pub(crate) service: String,
}

#[derive(Debug, Default)]
struct Row {
    /// The times of the reports. `None` before the first.
    coverage: Option<Coverage>,
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
    issued: History,
}

impl LoadTotals {
    /// Counts the bytes of all rows in the budget of a server.
    pub(super) fn count_in(&self, server: &Arc<server::Budget>) {
        self.lock().budget.count_in(server);
    }

    /// Adds a report of a client that was asked to report at the interval `asked`. Returns `false` if the budget has no room
    /// for it.
    pub(super) fn record(
        &self,
        now: Instant,
        node: &str,
        report: &ClusterStats,
        asked: Duration,
    ) -> bool {
        let key = LoadKey {
            node: node.to_owned(),
            cluster: report.cluster_name.clone(),
            service: report.cluster_service_name.clone(),
        };
        let mut all = self.lock();
        if !all.rows.contains_key(&key) && !all.make_room(&key, now) {
            return false;
        }
        let Rows { rows, budget, .. } = &mut *all;
        rows.entry(key).or_default().add(now, report, asked, budget);
        true
    }

    /// Returns all rows that have not expired, and deletes the others.
    pub(super) fn loads(&self, now: Instant) -> Vec<ClusterLoad> {
        let mut all = self.lock();
        all.expire(now);
        let rows = all.rows.iter();
        rows.map(|(key, row)| row.load(key, now)).collect()
    }

    /// Returns up to `count` rows of selected nodes after this key, and the key of the last one if there may be more.
    pub(super) fn after(
        &self,
        now: Instant,
        after: Option<&LoadKey>,
        count: usize,
        selects: impl Fn(&str) -> bool,
    ) -> (Vec<ClusterLoad>, Option<Option<LoadKey>>) {
        let mut all = self.lock();
        all.expire(now);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = all.rows.range((from, Bound::Unbounded));
        let mut rows = rows.filter(|(key, _)| selects(&key.node)).peekable();
        let (mut loads, mut last) = (Vec::new(), None);
        while loads.len() < count
            && let Some((key, row)) = rows.next()
        {
            loads.push(row.load(key, now));
            last = Some(key);
        }
        let more = rows.peek().is_some().then(|| last.cloned());
        (loads, more)
    }

    /// Returns the number of rows that have not expired.
    pub(super) fn count(&self, now: Instant) -> usize {
        let mut all = self.lock();
        all.expire(now);
        all.rows.len()
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// Takes the budget for one more row, and deletes expired rows if it is spent. Such a search costs O(rows), so there is
    /// at most one per second.
    fn make_room(&mut self, key: &LoadKey, now: Instant) -> bool {
        let cost = cost::<LoadKey, Row>(key, 0);
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
            let stays = row.coverage.is_some_and(|coverage| {
                let age = coverage.interval().saturating_mul(MISSED).max(MIN_AGE);
                now.saturating_since(coverage.ended()) < age
            });
            if !stays {
                budget.give_back(cost::<LoadKey, Row>(key, 0) + row.bytes);
            }
            stays
        });
    }
}

impl Row {
    fn add(&mut self, now: Instant, report: &ClusterStats, asked: Duration, budget: &mut Budget) {
        let free = budget.free();
        let period = self.begin(now, report.load_report_interval.as_ref(), asked);
        self.dropped = self.dropped.saturating_add(report.total_dropped_requests);
        for drop in &report.dropped_requests {
            if let Some(sum) = entry(&mut self.drops, &drop.category, 0, budget) {
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
            let locality = [region, zone, sub_zone];
            if let Some(totals) = entry(&mut self.localities, &locality, HISTORY_BYTES, budget) {
                totals.add(period, stats, budget);
            }
        }
        self.bytes += free - budget.free();
    }

    /// Notes the time of a report, and returns the period that it covers.
    fn begin(&mut self, now: Instant, interval: Option<&ProtoDuration>, asked: Duration) -> Period {
        // `load_report.proto`: the time since the last report, which the client measured. Without it, or with zero, the time
        // between the reports counts.
        let reported = interval.and_then(positive);
        let reported = reported.map(|reported| reported.min(MAX_INTERVAL.max(asked)));
        let interval = reported.unwrap_or(asked);
        let since = self
            .coverage
            .map(|coverage| now.saturating_since(coverage.ended()));
        let since = since.filter(|since| !since.is_zero());
        let length = reported.or(since).unwrap_or(asked);
        let period = Period::new(now, length);
        match &mut self.coverage {
            Some(coverage) => coverage.add(now, interval),
            None => self.coverage = Some(Coverage::first(&period, now, interval)),
        }
        period
    }

    fn load(&self, key: &LoadKey, now: Instant) -> ClusterLoad {
        let rate = |totals: &LocalityTotals, window| {
            let coverage = self.coverage.as_ref();
            coverage.map_or(0.0, |coverage| totals.issued.rate(now, window, coverage))
        };
        let locality = |(locality, totals): (&[String; 3], &LocalityTotals)| LocalityLoad {
            locality: locality.clone(),
            requests: totals.requests,
            in_progress: totals.in_progress,
            rate_10s: rate(totals, SHORT_WINDOW),
            rate_60s: rate(totals, WINDOW),
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
    fn add(&mut self, period: Period, stats: &UpstreamLocalityStats, budget: &mut Budget) {
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
        self.issued.add(period, stats.total_issued_requests);
    }

    fn add_metric(&mut self, name: &str, finished: u64, total: f64, budget: &mut Budget) {
        // With NaN or infinity the sum would never be a number again.
        if !total.is_finite() {
            return;
        }
        if let Some(metric) = entry(&mut self.metrics, &name.to_owned(), 0, budget) {
            metric.requests = metric.requests.saturating_add(finished);
            metric.total = (metric.total + total).clamp(f64::MIN, f64::MAX);
        }
    }
}

/// Returns the entry of a key. Creates it if the map and the budget have room, else returns `None`. `owned`: the bytes that its
/// value may allocate.
fn entry<'a, K: NameBytes + Ord + Clone, V: Default>(
    map: &'a mut BTreeMap<K, V>,
    key: &K,
    owned: usize,
    budget: &mut Budget,
) -> Option<&'a mut V> {
    let is_full = map.len() >= MAX_NAMES;
    if !map.contains_key(key) && (is_full || !budget.take(cost::<K, V>(key, owned))) {
        return None;
    }
    Some(map.entry(key.clone()).or_default())
}

/// Reads a duration that is longer than zero.
fn positive(duration: &ProtoDuration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos).ok()?;
    let duration = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
    Some(duration).filter(|duration| !duration.is_zero())
}

impl NameBytes for LoadKey {
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

    /// The interval that clients are asked for.
    const ASKED: Duration = Duration::from_secs(5);

    fn covering(seconds: i64, issued: u64) -> ClusterStats {
        ClusterStats {
            load_report_interval: Some(ProtoDuration { seconds, nanos: 0 }),
            ..report("x", issued)
        }
    }

    /// Returns the rates over 10 and 60 seconds at a time.
    fn rates(totals: &LoadTotals, second: u64) -> (f64, f64) {
        let load = totals.loads(at(second)).remove(0).localities.remove(0);
        (load.rate_10s, load.rate_60s)
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
            assert!(totals.record(at(second), node, &report(zone, issued), ASKED));
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
            totals.record(at(second), "a", &report("x", 100), ASKED);
        }
        assert_eq!(rates(&totals, 121), (20.0, 20.0));
        assert_eq!(rates(&totals, 131).0, 0.0);
    }

    /// Given a client that reports each minute, then its rates are those of the minute that a report covers, at any time
    /// between two reports. Given one that reports ten times per second, then they are those of its reports.
    #[test]
    fn b5_rates_follow_the_reported_interval() {
        let totals = LoadTotals::default();
        let minute = 60;
        totals.record(at(100), "a", &covering(minute, 6_000), ASKED);
        for second in [100, 109, 130, 159] {
            assert_eq!(rates(&totals, second), (100.0, 100.0), "at {second}");
        }
        totals.record(at(160), "a", &covering(minute, 600), ASKED);
        assert_eq!(rates(&totals, 200), (10.0, 10.0));
        // Two intervals without a report: the client is gone, or silent.
        assert_eq!(rates(&totals, 280), (0.0, 0.0));

        let often = LoadTotals::default();
        for tenth in 1..=1_200 {
            let now = Instant::from_epoch(Duration::from_millis(tenth * 100));
            let mut report = report("x", 5);
            let nanos = 100_000_000;
            report.load_report_interval = Some(ProtoDuration { seconds: 0, nanos });
            often.record(now, "a", &report, ASKED);
        }
        let (short, long) = rates(&often, 120);
        assert!(
            (short - 50.0).abs() < 0.1 && (long - 50.0).abs() < 0.1,
            "{short} {long}"
        );
    }

    /// Given a client of which only the latest ten seconds are known, then the rate over a minute covers those. A locality
    /// without requests is left out of reports, and its rate falls.
    #[test]
    fn b5_rates_cover_the_reported_time_only() {
        let totals = LoadTotals::default();
        totals.record(at(100), "a", &covering(5, 50), ASKED);
        totals.record(at(105), "a", &covering(5, 100), ASKED);
        assert_eq!(rates(&totals, 105), (15.0, 15.0));
        let mut idle = covering(5, 1);
        idle.upstream_locality_stats.clear();
        totals.record(at(110), "a", &idle, ASKED);
        assert_eq!(rates(&totals, 110), (10.0, 10.0));
        totals.record(at(115), "a", &idle, ASKED);
        assert_eq!(rates(&totals, 115), (0.0, 7.5));
    }

    /// Given an interval of zero, or an impossible one, then the time between two reports counts, and for the first report
    /// the interval that was asked for. Reports at the same time are no division by zero.
    #[test]
    fn b5_interval_of_zero_is_replaced_by_the_measured_one() {
        for seconds in [0, -1, i64::MIN] {
            let totals = LoadTotals::default();
            totals.record(at(5), "a", &covering(seconds, 100), ASKED);
            assert_eq!(rates(&totals, 5), (20.0, 20.0), "{seconds}");
            totals.record(at(15), "a", &covering(seconds, 100), ASKED);
            assert_eq!(rates(&totals, 15).0, 10.0, "{seconds}");
            totals.record(at(15), "a", &covering(seconds, 100), Duration::ZERO);
            let (short, long) = rates(&totals, 15);
            assert!(short.is_finite() && long.is_finite(), "{seconds}");
        }
    }

    /// Given a client that reports every five minutes, then its row stays for three of its intervals. An interval of ages
    /// keeps no row for ages, unless it was asked for.
    #[test]
    fn b5_ageing_follows_the_reported_interval() {
        let totals = LoadTotals::default();
        totals.record(at(1_000), "a", &covering(300, 1), ASKED);
        assert_eq!(totals.loads(at(1_899)).len(), 1);
        assert_eq!(totals.loads(at(1_900)).len(), 0);
        totals.record(at(2_000), "a", &covering(i64::MAX, 1), ASKED);
        assert_eq!(totals.loads(at(2_000 + 3 * 3_600)).len(), 0);
        let day = Duration::from_secs(86_400);
        totals.record(at(100_000), "a", &covering(86_400, 1), day);
        assert_eq!(totals.loads(at(100_000 + 2 * 86_400)).len(), 1);
    }

    /// Given many processes that report as one node, then the history is bounded, and its sum is right.
    #[test]
    fn b5_history_of_a_locality_is_bounded() {
        let totals = LoadTotals::default();
        for report in 0..1_000 {
            let now = Instant::from_epoch(Duration::from_millis(100_000 + report));
            totals.record(now, "a", &covering(5, 10), ASKED);
        }
        let (short, _) = rates(&totals, 101);
        assert!((1_600.0..2_100.0).contains(&short), "{short}");
    }

    #[test]
    fn s67_rows_of_a_vanished_client_expire() {
        let totals = LoadTotals::default();
        totals.record(at(1), "gone", &report("x", 1), ASKED);
        totals.record(at(30), "here", &report("x", 1), ASKED);
        assert_eq!(totals.loads(at(60)).len(), 2);
        assert_eq!(totals.loads(at(61)).len(), 1);
    }

    /// Given a client that invents localities, then their number is bounded.
    #[test]
    fn s60_invented_names_are_bounded() {
        let totals = LoadTotals::default();
        for zone in 0..2 * MAX_NAMES {
            totals.record(at(1), "a", &report(&zone.to_string(), 1), ASKED);
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
            totals.record(at(second), "a", &report, ASKED)
        };
        let fitting = (0..200).take_while(|_| record(1)).count();
        assert!((50..=64).contains(&fitting), "{fitting}");
        assert!(!record(50));
        assert!(record(61));
        assert_eq!(totals.loads(at(61)).len(), 1);
        drop(totals.loads(at(200)));
        assert_eq!(totals.lock().budget.free(), Budget::default().free());
    }

    /// Given a server with room for 1 MiB, when clients invent clusters, then the sum of their rows stays below it, and the
    /// server sees the sum. Rows that expire are given back.
    #[test]
    fn cost_c1_rows_count_in_the_budget_of_the_server() {
        let limits = crate::Limits {
            client_bytes: 1 << 20,
            ..crate::Limits::default()
        };
        let server = server::Budget::of_server(&limits);
        let totals = LoadTotals::default();
        assert!(totals.record(at(1), "early", &report("", 1), ASKED));
        totals.count_in(&server);
        assert!((100..10_000).contains(&server.used()), "{}", server.used());
        let record = |i: usize| {
            let mut report = report("", 1);
            report.cluster_name = format!("{i}{}", "x".repeat(100 << 10));
            totals.record(at(1), "a", &report, ASKED)
        };
        let fitting = (0..20).take_while(|i| record(*i)).count();
        assert!((5..=10).contains(&fitting), "{fitting}");
        assert!(server.used() <= 1 << 20);
        drop(totals.loads(at(200)));
        assert_eq!(server.used(), 0);
    }
}
