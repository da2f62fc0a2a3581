//! A leaf: a cluster with endpoints, which serves the cluster of a route, alone or beside others (gRFC A37).

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::load::{ClusterLoad, LoadReporter};
use oxds_core::lb::OutlierDetector;
use oxds_core::resolve::LeafCluster;
use oxds_core::resource::{Endpoint, Locality};
use oxds_core::time::Instant;
use smallvec::SmallVec;

use super::level::{LevelContext, PriorityLevel};
use crate::endpoint::{PickAddress, Picked};
use crate::limits::RequestLimit;
use crate::picker::DropCounts;

/// State of a leaf that all its priorities share.
pub(super) struct Leaf {
    pub(super) config: Arc<LeafCluster>,
    /// Load counters, if the cluster reports load.
    load: Option<ClusterLoad>,
    pub(super) drops: DropCounts,
    /// Circuit breaker.
    pub(super) limit: Arc<RequestLimit>,
    pub(super) detector: OutlierDetector,
}

impl Leaf {
    /// Makes a leaf. `before` is the leaf of the same cluster in the configuration before.
    pub(super) fn new(
        now: Instant,
        config: &Arc<LeafCluster>,
        loads: Option<&LoadReporter>,
        before: Option<Self>,
    ) -> Self {
        // The new load handle is made before the old one is dropped, so that the LRS stream of a cluster that stays does not
        // end.
        let load = loads.and_then(|loads| loads.of(&config.cluster));
        // gRFC A50: endpoints that stay keep their counts and their ejection.
        let mut detector = before.map(|before| before.detector).unwrap_or_default();
        let endpoints = config.assignment.iter().flat_map(|all| all.endpoints());
        detector.set_endpoints(endpoints.map(|endpoint| endpoint.address));
        detector.configure(now, config.cluster.outlier.as_ref());
        Self {
            config: Arc::clone(config),
            drops: drop_counts(load.as_ref(), config),
            limit: Arc::new(RequestLimit::of(&config.cluster, load.clone())),
            load,
            detector,
        }
    }

    /// Returns its priorities, of which the first has the number `first`. `index` is the number of the leaf.
    pub(super) fn levels(
        &self,
        index: usize,
        first: usize,
        context: LevelContext,
    ) -> impl Iterator<Item = PriorityLevel> {
        let levels = (first..).zip(priorities(&self.config));
        levels.map(move |(priority, localities)| {
            let endpoints = localities.iter();
            let endpoints = endpoints.flat_map(|locality| self.endpoints(priority, locality));
            PriorityLevel::new(
                index,
                &self.config.cluster,
                localities,
                endpoints.collect(),
                context,
            )
        })
    }

    /// Returns the endpoints of a locality, each with its addresses.
    fn endpoints(
        &self,
        priority: usize,
        locality: &Locality,
    ) -> impl Iterator<Item = SmallVec<[PickAddress; 1]>> {
        let name: Arc<str> = locality.id.to_string().into();
        let load = self.load.as_ref().map(|load| load.locality(&locality.id));
        let pick_address = move |address: &SocketAddr, endpoint: &Endpoint| PickAddress {
            picked: Arc::new(Picked {
                cluster: Arc::clone(&self.config.cluster.name),
                locality: Arc::clone(&name),
                priority,
                address: *address,
            }),
            load: load.clone(),
            results: self.detector.results(endpoint.address),
        };
        let addresses = move |endpoint: &Endpoint| {
            let all = std::iter::once(&endpoint.address).chain(&endpoint.additional_addresses);
            all.map(|address| pick_address(address, endpoint)).collect()
        };
        locality.endpoints.iter().map(addresses)
    }
}

/// Returns the localities of a leaf by priority.
fn priorities(config: &LeafCluster) -> &[Vec<Locality>] {
    let assignment = config.assignment.as_ref();
    assignment.map_or(&[], |assignment| &assignment.priorities)
}

fn drop_counts(load: Option<&ClusterLoad>, config: &LeafCluster) -> DropCounts {
    let (Some(load), Some(assignment)) = (load, &config.assignment) else {
        return DropCounts::default();
    };
    let drops = assignment.drops.iter();
    drops.map(|drop| load.category(&drop.category)).collect()
}

/// Returns, for each new priority, the old priority that it continues, if any.
///
/// gRFC A56, child name reuse: it is the first old priority of the same cluster, in the order of the new one's localities, that has
/// one of them and is not continued already.
pub(super) fn continued_priorities(
    old: &[Arc<LeafCluster>],
    new: &[Arc<LeafCluster>],
) -> Vec<Option<usize>> {
    let levels = |leaves: &'_ [Arc<LeafCluster>]| -> Vec<(Arc<str>, Vec<Locality>)> {
        let of_leaf = |leaf: &Arc<LeafCluster>| {
            let name = &leaf.cluster.name;
            let levels = priorities(leaf).iter();
            levels
                .map(|level| (Arc::clone(name), level.clone()))
                .collect::<Vec<_>>()
        };
        leaves.iter().flat_map(of_leaf).collect()
    };
    let old = levels(old);
    let mut taken = vec![false; old.len()];
    let mut continued = |(name, level): (Arc<str>, Vec<Locality>)| {
        let old_priority_of = |locality: &Locality| {
            (0..old.len()).find(|&index| {
                let (old_name, old_level) = &old[index];
                !taken[index]
                    && *old_name == name
                    && old_level.iter().any(|other| other.id == locality.id)
            })
        };
        let index = level.iter().find_map(old_priority_of)?;
        taken[index] = true;
        Some(index)
    };
    levels(new).into_iter().map(&mut continued).collect()
}
