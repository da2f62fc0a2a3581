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
use crate::calls;

/// The least time after which a row without a report is deleted: twelve reports at the default interval.
const MIN_AGE: Duration = Duration::from_secs(60);
/// The intervals without a report after which a row is deleted.
const MISSED: u32 = 3;
/// The longest interval that a client may report, unless it was asked for a longer one: the row stays for three of
/// them.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);
/// The window of the short rate.
const SHORT_WINDOW: Duration = Duration::from_secs(10);
/// The largest number of localities, drop categories and metrics in a row, each. Real clients have far fewer.
const MAX_NAMES: usize = 256;

/// Numbers of requests, since the client's first report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Metric {
    /// The requests that ended with this metric.
    pub requests: u64,
    /// The sum of the values.
    pub total: f64,
}

/// The load of one locality of a cluster, as one node reported it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct ClusterLoad {
    /// `node.id` of the client.
    pub node: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The `eds_service_name` of the cluster; empty if it has none.
    pub service: String,
    /// The requests that the client dropped by its configuration, since its first report.
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
    pub(super) fn count_in(&self, server: &Arc<calls::Budget>) {
        self.lock().budget.count_in(server);
    }

    /// Adds a report of a client that was asked to report at the interval `asked`. Returns `false` if the budget has no
    /// room for it.
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
    /// Takes the budget for one more row, and deletes expired rows if it is spent. Such a search costs O(rows), so
    /// there is at most one per second.
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
        // `load_report.proto`: the time since the last report, which the client measured. Without it, or with zero, the
        // time between the reports counts.
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

/// Returns the entry of a key. Creates it if the map and the budget have room, else returns `None`. `owned`: the bytes
/// that its value may allocate.
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
mod tests;
