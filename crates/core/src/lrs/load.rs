//! Counters of RPCs. An RPC writes them with single atomic operations; a report has the counts since the report before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3::cluster_stats::DroppedRequests;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use oxds_types::orca::OrcaLoadReport;

use super::metrics::MetricSums;
use crate::resource::{LocalityId, MetricSelection};

/// Counters of one cluster.
///
/// Localities and drop categories are looked up under a lock, once per configuration. Counting on them takes no lock.
#[derive(Debug, Default)]
pub struct ClusterLoad {
    localities: Mutex<BTreeMap<LocalityId, TrackedLocality>>,
    categories: Mutex<BTreeMap<Arc<str>, Arc<DropCount>>>,
    /// Drops without a category (C-138).
    uncategorized: DropCount,
}

/// A locality with the counts that were reported.
#[derive(Debug, Default)]
struct TrackedLocality {
    load: Arc<LocalityLoad>,
    reported: RequestCounts,
}

/// Counters of one locality of a cluster.
#[derive(Debug, Default)]
pub struct LocalityLoad {
    // Totals; a report has the difference from the report before.
    begun: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// RPCs in progress. This has its own counter: the difference of starts and ends, read one after the other, would
    /// be wrong by everything that happened in between.
    in_progress: AtomicU64,
    metrics: MetricSums,
}

/// Counter of dropped RPCs.
#[derive(Debug, Default)]
pub struct DropCount(AtomicU64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RequestCounts {
    begun: u64,
    succeeded: u64,
    failed: u64,
}

impl ClusterLoad {
    /// Returns the counters of a locality. Clusters without localities use the empty id (C-145).
    #[must_use]
    pub fn locality(&self, id: &LocalityId) -> Arc<LocalityLoad> {
        let mut localities = lock(&self.localities);
        Arc::clone(&localities.entry(id.clone()).or_default().load)
    }

    /// Returns the counter of a drop category (gRFC A27).
    #[must_use]
    pub fn category(&self, name: &Arc<str>) -> Arc<DropCount> {
        let mut categories = lock(&self.categories);
        Arc::clone(categories.entry(Arc::clone(name)).or_default())
    }

    /// Returns the counter of drops without a category, such as those by circuit breakers (gRFC A32).
    #[must_use]
    pub fn uncategorized(&self) -> &DropCount {
        &self.uncategorized
    }

    /// Returns whether there are counts that were not reported.
    pub(super) fn has_unreported(&self) -> bool {
        let localities = lock(&self.localities);
        let categories = lock(&self.categories);
        localities.values().any(TrackedLocality::has_unreported)
            || categories.values().any(|drops| drops.has_unreported())
            || self.uncategorized.has_unreported()
    }

    /// Returns the counts since the last call. Localities without counts are left out; localities that no configuration
    /// uses any more are removed after this call.
    pub(super) fn take(&self) -> ClusterStats {
        let mut upstream_locality_stats = Vec::new();
        lock(&self.localities).retain(|id, locality| {
            let is_used = Arc::strong_count(&locality.load) > 1;
            upstream_locality_stats.extend(locality.take(id));
            is_used
        });
        let mut dropped_requests = Vec::new();
        lock(&self.categories).retain(|category, drops| {
            let is_used = Arc::strong_count(drops) > 1;
            let dropped_count = drops.take();
            if dropped_count > 0 {
                dropped_requests.push(DroppedRequests {
                    category: category.to_string(),
                    dropped_count,
                });
            }
            is_used
        });
        let by_category = dropped_requests.iter().map(|drops| drops.dropped_count);
        ClusterStats {
            total_dropped_requests: by_category.sum::<u64>() + self.uncategorized.take(),
            upstream_locality_stats,
            dropped_requests,
            ..ClusterStats::default()
        }
    }
}

impl TrackedLocality {
    fn has_unreported(&self) -> bool {
        self.load.counts() != self.reported
    }

    fn take(&mut self, id: &LocalityId) -> Option<UpstreamLocalityStats> {
        let now = self.load.counts();
        let before = std::mem::replace(&mut self.reported, now);
        let metrics = self.load.metrics.take();
        let stats = UpstreamLocalityStats {
            total_issued_requests: now.begun - before.begun,
            total_successful_requests: now.succeeded - before.succeeded,
            total_error_requests: now.failed - before.failed,
            total_requests_in_progress: self.load.in_progress.load(Ordering::Relaxed),
            ..metrics
        };
        (stats != UpstreamLocalityStats::default()).then(|| UpstreamLocalityStats {
            locality: Some(Locality {
                region: id.region.clone(),
                zone: id.zone.clone(),
                sub_zone: id.sub_zone.clone(),
            }),
            ..stats
        })
    }
}

impl LocalityLoad {
    /// Counts the start of an RPC. [`succeed`](Self::succeed) or [`fail`](Self::fail) must follow.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the successful end of an RPC.
    pub fn succeed(&self) {
        // Release: a reader that sees this end also sees the start, so no report has more ends than starts.
        self.succeeded.fetch_add(1, Ordering::Release);
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts the end of an RPC that failed or was cancelled.
    pub fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Release);
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds the metrics that a backend reported at the end of an RPC (gRFC A64).
    pub fn record(&self, selection: &MetricSelection, report: &OrcaLoadReport) {
        self.metrics.add(selection, report);
    }

    fn counts(&self) -> RequestCounts {
        // Ends are read before starts; see `succeed`.
        let succeeded = self.succeeded.load(Ordering::Acquire);
        let failed = self.failed.load(Ordering::Acquire);
        RequestCounts {
            begun: self.begun.load(Ordering::Relaxed),
            succeeded,
            failed,
        }
    }
}

impl DropCount {
    /// Counts a dropped RPC.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn has_unreported(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock; after a panic the maps would still be complete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given RPCs that start and end on other threads; when reports are taken at the same time; then no report has more
    /// ends than starts, and together they have each RPC once.
    #[test]
    fn c136_reports_under_load_count_each_rpc_once() {
        const EACH: u64 = 20_000;
        let cluster = ClusterLoad::default();
        let load = cluster.locality(&LocalityId::default());
        let mut sums = [0; 3];
        let mut add = |stats: ClusterStats| {
            for locality in stats.upstream_locality_stats {
                sums[0] += locality.total_issued_requests;
                sums[1] += locality.total_successful_requests;
                sums[2] += locality.total_error_requests;
                assert!(locality.total_requests_in_progress <= 2, "two at a time");
            }
        };
        std::thread::scope(|scope| {
            let work = |end: fn(&LocalityLoad)| {
                for _ in 0..EACH {
                    load.begin();
                    end(&load);
                }
            };
            let one = scope.spawn(move || work(LocalityLoad::succeed));
            let other = scope.spawn(move || work(LocalityLoad::fail));
            while !(one.is_finished() && other.is_finished()) {
                add(cluster.take());
            }
        });
        add(cluster.take());
        assert_eq!(sums, [2 * EACH, EACH, EACH]);
        assert!(!cluster.has_unreported());
    }

    /// Given localities and categories that no configuration uses any more; then they are reported once more, and
    /// removed.
    #[test]
    fn unused_counters_are_reported_once_and_removed() {
        let cluster = ClusterLoad::default();
        let id = LocalityId {
            region: "gone".into(),
            ..LocalityId::default()
        };
        let load = cluster.locality(&id);
        load.begin();
        load.fail();
        drop(load);
        cluster.category(&"shed".into()).add();
        let last = cluster.take();
        assert_eq!(last.upstream_locality_stats[0].total_error_requests, 1);
        assert_eq!(last.dropped_requests[0].dropped_count, 1);
        assert!(lock(&cluster.localities).is_empty());
        assert!(lock(&cluster.categories).is_empty());
    }
}
