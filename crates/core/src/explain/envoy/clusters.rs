//! Clusters of Envoy, with the share of each endpoint.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, LbConfig, LbPolicy,
    common_lb_config::LocalityConfigSpecifier,
};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::locality_lb_endpoints::LbConfig as EndpointsFrom;
use oxds_types::{Decode, ResourceType};

use crate::explain::model::{Action, ClusterStep, Destination};
use crate::explain::source::ResourceSource;

use super::spread::{Balancing, priorities};

/// Envoy's default of `healthy_panic_threshold`, in percent.
const PANIC_THRESHOLD: f64 = 50.0;

/// Returns the clusters of the destinations.
pub(super) fn of(destinations: &[Destination], source: &impl ResourceSource) -> Vec<ClusterStep> {
    let names = destinations.iter().filter_map(|one| match &one.action {
        Action::Forward { cluster, .. } => Some(cluster.as_str()),
        _ => None,
    });
    let wanted: BTreeSet<_> = names.collect();
    wanted
        .into_iter()
        .map(|name| cluster(name, source))
        .collect()
}

fn cluster(name: &str, source: &impl ResourceSource) -> ClusterStep {
    let failed = |error: String| ClusterStep {
        name: name.to_owned(),
        error: Some(error),
        ..ClusterStep::default()
    };
    let Some(value) = source.find(&ResourceType::CLUSTER, name) else {
        return failed(format!("503: cluster {name:?} does not exist"));
    };
    let cluster = match Cluster::from_bytes(&value) {
        Ok(cluster) => cluster,
        Err(error) => return failed(error.to_string()),
    };
    let mut step = ClusterStep {
        name: name.to_owned(),
        discovery: discovery(&cluster),
        balancing: policy(&cluster),
        ..ClusterStep::default()
    };
    let Some(assignment) = assignment(&cluster, source) else {
        step.notes.push("its endpoints are not examined".to_owned());
        return step;
    };
    let common = cluster.common_lb_config.as_ref();
    let threshold = common.and_then(|common| common.healthy_panic_threshold.as_ref());
    let by_locality = matches!(
        common.and_then(|common| common.locality_config_specifier.as_ref()),
        Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(_))
    );
    let (shares_known, note) = spreads(&cluster);
    let conditions = conditions(&cluster, &assignment);
    let notes = note.into_iter().chain(conditions);
    step.notes.extend(notes.map(str::to_owned));
    let balancing = Balancing {
        by_locality,
        by_weight: cluster.lb_policy() != LbPolicy::Random,
        shares_known,
        panic_threshold: threshold.map_or(PANIC_THRESHOLD, |percent| percent.value),
    };
    step.priorities = priorities(name, &assignment, balancing, &mut step.notes);
    if step.priorities.is_empty() {
        step.notes
            .push("no endpoint can be used: requests fail with 503".to_owned());
    }
    step
}

fn discovery(cluster: &Cluster) -> String {
    match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(number)) => match DiscoveryType::try_from(*number) {
            Ok(known) => known.as_str_name().to_owned(),
            Err(_) => format!("type {number}"),
        },
        Some(ClusterDiscoveryType::ClusterType(custom)) => custom.name.clone(),
        None => "STATIC".to_owned(),
    }
}

fn policy(cluster: &Cluster) -> String {
    let listed = cluster.load_balancing_policy.as_ref();
    let first = listed.and_then(|listed| listed.policies.first());
    let config = first.and_then(|policy| policy.typed_extension_config.as_ref());
    match (listed, config) {
        (None, _) => cluster.lb_policy().as_str_name().to_owned(),
        (Some(_), Some(config)) => config.name.clone(),
        (Some(_), None) => "load_balancing_policy".to_owned(),
    }
}

/// Returns whether the shares of endpoints are known, and what they depend on.
fn spreads(cluster: &Cluster) -> (bool, Option<&'static str>) {
    if cluster.load_balancing_policy.is_some() {
        return (
            false,
            Some("load_balancing_policy: the shares are not examined"),
        );
    }
    if cluster.lb_subset_config.is_some() {
        return (false, Some("lb_subset_config: the shares are not examined"));
    }
    match cluster.lb_policy() {
        LbPolicy::RoundRobin | LbPolicy::Random => (true, None),
        LbPolicy::LeastRequest => (
            true,
            Some(
                "of some endpoints, the one with the fewest requests is chosen: shares are those of equal load",
            ),
        ),
        LbPolicy::RingHash | LbPolicy::Maglev => (
            true,
            Some("the hash of a request chooses its endpoint: shares are those of many hashes"),
        ),
        _ => (false, Some("the shares of this policy are not examined")),
    }
}

/// Returns what the shares depend on besides the policy: what Envoy learns while it runs, and endpoints from elsewhere.
fn conditions(
    cluster: &Cluster,
    assignment: &ClusterLoadAssignment,
) -> impl Iterator<Item = &'static str> {
    let starts_slowly = match &cluster.lb_config {
        Some(LbConfig::RoundRobinLbConfig(config)) => config.slow_start_config.is_some(),
        Some(LbConfig::LeastRequestLbConfig(config)) => config.slow_start_config.is_some(),
        _ => false,
    };
    let common = cluster.common_lb_config.as_ref();
    let by_zone = matches!(
        common.and_then(|common| common.locality_config_specifier.as_ref()),
        Some(LocalityConfigSpecifier::ZoneAwareLbConfig(_))
    );
    let policy = assignment.policy.as_ref();
    let from = |from_leds: bool| {
        let from = assignment.endpoints.iter();
        let mut from = from.filter_map(|locality| locality.lb_config.as_ref());
        // The other source is deprecated.
        from.any(|from| matches!(from, EndpointsFrom::LedsClusterLocalityConfig(_)) == from_leds)
    };
    let conditions = [
        (
            "health_checks: an endpoint that fails them gets nothing",
            !cluster.health_checks.is_empty(),
        ),
        (
            "outlier_detection: an endpoint that fails too often gets nothing for a time",
            cluster.outlier_detection.is_some(),
        ),
        (
            "slow_start_config: a new endpoint gets less at first",
            starts_slowly,
        ),
        (
            "zone_aware_lb_config: an Envoy that knows its own zone prefers it",
            by_zone,
        ),
        (
            "endpoint_stale_after: endpoints that EDS does not confirm in time get nothing",
            policy.is_some_and(|policy| policy.endpoint_stale_after.is_some()),
        ),
        (
            "leds_cluster_locality_config: endpoints of LEDS are not examined",
            from(true),
        ),
        (
            "load_balancer_endpoints: these endpoints are not examined",
            from(false),
        ),
    ];
    let held = conditions.into_iter().filter(|(_, holds)| *holds);
    held.map(|(text, _)| text)
}

/// Returns the endpoints; `None` if they come from elsewhere.
fn assignment(cluster: &Cluster, source: &impl ResourceSource) -> Option<ClusterLoadAssignment> {
    let is_eds = matches!(
        &cluster.cluster_discovery_type,
        Some(ClusterDiscoveryType::Type(number)) if *number == DiscoveryType::Eds as i32
    );
    if !is_eds {
        return cluster.load_assignment.clone();
    }
    let service = cluster.eds_cluster_config.as_ref();
    let service = service.map(|config| config.service_name.as_str());
    let name = service
        .filter(|name| !name.is_empty())
        .unwrap_or(&cluster.name);
    let value = source.find(&ResourceType::ENDPOINT, name)?;
    ClusterLoadAssignment::from_bytes(&value).ok()
}
