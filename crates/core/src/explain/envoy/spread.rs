//! Shares of priorities, localities and endpoints by Envoy's rules.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints,
};

use crate::explain::addresses::endpoint_address;
use crate::explain::grpc::{health, locality_name};
use crate::explain::model::{EndpointStep, LocalityStep, PriorityStep};

/// Envoy's default of `overprovisioning_factor`.
const OVERPROVISIONING: u32 = 140;

/// How a cluster spreads requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Balancing {
    /// Whether weights of localities count (`locality_weighted_lb_config`).
    pub(super) by_locality: bool,
    /// Whether weights of endpoints count.
    pub(super) by_weight: bool,
    /// Whether the shares follow from the configuration.
    pub(super) shares_known: bool,
    /// Percent of available endpoints below which all are used.
    pub(super) panic_threshold: f64,
}

/// State of a priority.
#[derive(Debug)]
struct Level<'a> {
    localities: Vec<&'a LocalityLbEndpoints>,
    /// Share of its endpoints that is healthy or degraded, in percent, times the factor, at most 100.
    available: u32,
    /// Whether all of its endpoints are used, since too few are available.
    is_panic: bool,
    /// Share of the requests, in percent.
    load: u32,
}

/// Returns the priorities of an assignment.
pub(super) fn priorities(
    cluster: &str,
    assignment: &ClusterLoadAssignment,
    balancing: Balancing,
    notes: &mut Vec<String>,
) -> Vec<PriorityStep> {
    let policy = assignment.policy.as_ref();
    let factor = policy.and_then(|policy| policy.overprovisioning_factor);
    let factor = factor.map_or(OVERPROVISIONING, |factor| factor.value);
    let by_weight = policy.is_some_and(|policy| policy.weighted_priority_health);
    let mut by_priority: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for locality in &assignment.endpoints {
        by_priority
            .entry(locality.priority)
            .or_default()
            .push(locality);
    }
    let levels = by_priority.into_iter().map(|(priority, localities)| {
        let level = Level::new(localities, factor, by_weight, balancing);
        (priority, level)
    });
    let mut levels: Vec<_> = levels.collect();
    spread(&mut levels);
    for drop in policy.iter().flat_map(|policy| &policy.drop_overloads) {
        notes.push(format!(
            "drop_overloads: a share of the requests is dropped by category {:?}",
            drop.category
        ));
    }
    let step = |(priority, level): &(u32, Level<'_>)| {
        if level.is_panic && level.load > 0 {
            notes.push(format!(
                "priority {priority}: too few endpoints are healthy, so all of them are used"
            ));
        }
        level.step(cluster, *priority, factor, balancing)
    };
    levels.iter().map(step).collect()
}

/// Sets the load of each priority: the first ones take as much as they have available.
fn spread(levels: &mut [(u32, Level<'_>)]) {
    let total: u32 = levels.iter().map(|(_, level)| level.available).sum();
    let total = total.min(100);
    if total == 0 {
        if let Some((_, first)) = levels.first_mut() {
            first.load = 100;
        }
        return;
    }
    let mut left = 100;
    for (_, level) in levels.iter_mut() {
        // Envoy: with enough endpoints in all priorities together, none is in panic.
        level.is_panic &= total < 100;
        level.load = left.min(level.available * 100 / total);
        left -= level.load;
    }
    // What is lost by rounding goes to the first priority that has a load.
    if let Some((_, first)) = levels.iter_mut().find(|(_, level)| level.load > 0) {
        first.load += left;
    }
}

/// Whether an endpoint is healthy or degraded, as far as EDS knows.
fn is_available(endpoint: &LbEndpoint) -> bool {
    matches!(
        endpoint.health_status(),
        HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded
    )
}

impl<'a> Level<'a> {
    /// `by_weight`: endpoints count by their weights for the share that is available (`weighted_priority_health`), but
    /// not for panic.
    fn new(
        localities: Vec<&'a LocalityLbEndpoints>,
        factor: u32,
        by_weight: bool,
        balancing: Balancing,
    ) -> Self {
        let endpoints = || localities.iter().flat_map(|one| &one.lb_endpoints);
        let available = || endpoints().filter(|one| is_available(one));
        let count = |endpoint: &LbEndpoint| match endpoint.load_balancing_weight {
            Some(weight) if by_weight => f64::from(weight.value),
            _ => 1.0,
        };
        let part: f64 = available().map(count).sum();
        let percent = part / endpoints().map(count).sum::<f64>().max(1.0) * f64::from(factor);
        let used = available().count() as f64 / (endpoints().count() as f64).max(1.0);
        Self {
            available: percent.min(100.0) as u32,
            is_panic: used * 100.0 < balancing.panic_threshold,
            load: 0,
            localities,
        }
    }

    fn uses(&self, endpoint: &LbEndpoint) -> bool {
        self.is_panic || is_available(endpoint)
    }

    /// Returns what a locality weighs among those of the priority.
    fn weight(&self, locality: &LocalityLbEndpoints, factor: u32, balancing: Balancing) -> f64 {
        let used = locality.lb_endpoints.iter().filter(|one| self.uses(one));
        if !balancing.by_locality {
            return used.map(|one| weight(one, balancing)).sum();
        }
        let (used, all) = (used.count() as f64, locality.lb_endpoints.len() as f64);
        let available = (used / all.max(1.0) * f64::from(factor) / 100.0).min(1.0);
        let own = locality
            .load_balancing_weight
            .map_or(0, |weight| weight.value);
        f64::from(own) * available
    }

    fn step(
        &self,
        cluster: &str,
        priority: u32,
        factor: u32,
        balancing: Balancing,
    ) -> PriorityStep {
        let share = f64::from(self.load) / 100.0;
        let weights = self.localities.iter();
        let total: f64 = weights.map(|one| self.weight(one, factor, balancing)).sum();
        let of_locality = |locality: &LocalityLbEndpoints| {
            if total > 0.0 {
                share * self.weight(locality, factor, balancing) / total
            } else {
                0.0
            }
        };
        let localities = self.localities.iter();
        let localities = localities.map(|one| self.locality(one, of_locality(one), balancing));
        PriorityStep {
            cluster: cluster.to_owned(),
            priority,
            share,
            localities: localities.collect(),
        }
    }

    fn locality(
        &self,
        proto: &LocalityLbEndpoints,
        share: f64,
        balancing: Balancing,
    ) -> LocalityStep {
        let used = proto.lb_endpoints.iter().filter(|one| self.uses(one));
        let total: f64 = used.map(|one| weight(one, balancing)).sum();
        let endpoints = proto.lb_endpoints.iter().map(|endpoint| {
            let is_used = self.uses(endpoint);
            let of_endpoint = share * weight(endpoint, balancing) / total.max(1.0);
            EndpointStep {
                address: endpoint_address(endpoint),
                health: health(endpoint.health_status),
                weight: endpoint.load_balancing_weight.map(|weight| weight.value),
                share: if is_used {
                    balancing.shares_known.then_some(of_endpoint)
                } else {
                    Some(0.0)
                },
                unused: (!is_used).then(|| "not healthy".to_owned()),
            }
        });
        LocalityStep {
            name: locality_name(proto.locality.as_ref()),
            weight: proto.load_balancing_weight.map(|weight| weight.value),
            share,
            endpoints: endpoints.collect(),
        }
    }
}

fn weight(endpoint: &LbEndpoint, balancing: Balancing) -> f64 {
    let own = endpoint
        .load_balancing_weight
        .filter(|_| balancing.by_weight);
    f64::from(own.map_or(1, |weight| weight.value))
}
