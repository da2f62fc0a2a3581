//! The counters. RPCs write them with single atomic operations; a report reads what came since the last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3::cluster_stats::DroppedRequests;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use oxds_types::orca::OrcaLoadReport;

use super::metrics::{MetricSelection, Metrics};
use crate::resource::LocalityId;

/// The counters of one cluster.
///
/// Its localities and categories are found under a lock, once, when a configuration is put into use; what is found is
/// counted on without one.
#[derive(Debug, Default)]
pub struct ClusterLoad {
    places: Mutex<BTreeMap<LocalityId, Place>>,
    categories: Mutex<BTreeMap<Arc<str>, Arc<DropCount>>>,
    /// Dropped for no category's sake (C-138).
    uncategorized: DropCount,
}

/// A locality, and how much of it has been reported.
#[derive(Debug, Default)]
struct Place {
    load: Arc<LocalityLoad>,
    reported: Counts,
}

/// The counters of one locality of a cluster.
#[derive(Debug, Default)]
pub struct LocalityLoad {
    // Since the beginning; a report is a difference.
    begun: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// As of now. A counter of its own: what has begun less what has ended, read one after the other, would be off by all
    /// that happened in between.
    in_progress: AtomicU64,
    metrics: Metrics,
}

/// RPCs that were dropped.
#[derive(Debug, Default)]
pub struct DropCount(AtomicU64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    begun: u64,
    succeeded: u64,
    failed: u64,
}

impl ClusterLoad {
    /// The counters of a locality; the empty one is that of clusters without localities (C-145).
    #[must_use]
    pub fn locality(&self, id: &LocalityId) -> Arc<LocalityLoad> {
        let mut places = lock(&self.places);
        Arc::clone(&places.entry(id.clone()).or_default().load)
    }

    /// The counter of a category of drops (gRFC A27).
    #[must_use]
    pub fn category(&self, name: &Arc<str>) -> Arc<DropCount> {
        let mut categories = lock(&self.categories);
        Arc::clone(categories.entry(Arc::clone(name)).or_default())
    }

    /// The counter of drops that have no category: by circuit breakers (gRFC A32).
    #[must_use]
    pub fn uncategorized(&self) -> &DropCount {
        &self.uncategorized
    }

    /// Whether there is something that no report has told.
    pub(super) fn is_untold(&self) -> bool {
        let places = lock(&self.places);
        let categories = lock(&self.categories);
        places.values().any(Place::is_untold)
            || categories.values().any(|drops| drops.is_untold())
            || self.uncategorized.is_untold()
    }

    /// What came since the last call. Localities without any are left out; those that nobody counts on any more, too,
    /// from the next time on.
    pub(super) fn take(&self) -> ClusterStats {
        let mut upstream_locality_stats = Vec::new();
        lock(&self.places).retain(|id, place| {
            let is_used = Arc::strong_count(&place.load) > 1;
            upstream_locality_stats.extend(place.take(id));
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

impl Place {
    fn is_untold(&self) -> bool {
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
    /// An RPC begins. One of [`succeed`](Self::succeed) and [`fail`](Self::fail) must follow.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
    }

    /// One that began has ended well.
    pub fn succeed(&self) {
        // Whoever sees this end sees its beginning: no report has more ends than beginnings.
        self.succeeded.fetch_add(1, Ordering::Release);
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
    }

    /// One that began has ended otherwise: with an error, or given up.
    pub fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Release);
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
    }

    /// What a backend said of itself at the end of an RPC (gRFC A64).
    pub fn record(&self, selection: &MetricSelection, report: &OrcaLoadReport) {
        self.metrics.add(selection, report);
    }

    fn counts(&self) -> Counts {
        // The ends first; see `succeed`.
        let succeeded = self.succeeded.load(Ordering::Acquire);
        let failed = self.failed.load(Ordering::Acquire);
        Counts {
            begun: self.begun.load(Ordering::Relaxed),
            succeeded,
            failed,
        }
    }
}

impl DropCount {
    /// An RPC was dropped.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn is_untold(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding it; if it did, the maps would still be whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given RPCs that begin and end on other threads; when reports are taken meanwhile; then no report has more ends
    /// than beginnings, and together they tell each RPC once.
    #[test]
    fn c136_reports_that_are_taken_under_load_lose_nothing() {
        const EACH: u64 = 20_000;
        let cluster = ClusterLoad::default();
        let load = cluster.locality(&LocalityId::default());
        let mut sums = [0; 3];
        let mut add = |stats: ClusterStats| {
            for place in stats.upstream_locality_stats {
                sums[0] += place.total_issued_requests;
                sums[1] += place.total_successful_requests;
                sums[2] += place.total_error_requests;
                assert!(place.total_requests_in_progress <= 2, "two at a time");
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
        assert!(!cluster.is_untold());
    }

    /// Given localities and categories that a configuration has given up; then they are told a last time, and forgotten.
    #[test]
    fn what_nobody_counts_on_is_told_and_forgotten() {
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
        assert!(lock(&cluster.places).is_empty());
        assert!(lock(&cluster.categories).is_empty());
    }
}
