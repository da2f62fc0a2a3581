//! Clusters of a channel, with the share of each endpoint.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Locality as LocalityProto};
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};
use oxds_types::{Decode, ResourceType};

use crate::explain::addresses::endpoint_address;
use crate::explain::model::{
    Action, ClusterStep, Destination, EndpointStep, LocalityStep, PriorityStep,
};
use crate::explain::source::ResourceSource;
use crate::lb::policy::PolicyConfig;
use crate::resolve::{ClusterConfig, LeafCluster, XdsConfig};
use crate::resource::{Discovery, Locality, LocalityId};

/// Reason for which a host name has no addresses here.
pub(crate) const NOT_LOOKED_UP: &str = "its host name is not looked up here";

/// Returns the clusters of the destinations.
pub(super) fn clusters(
    config: &XdsConfig,
    destinations: &[Destination],
    source: &impl ResourceSource,
) -> Vec<ClusterStep> {
    let names = destinations.iter().filter_map(|one| match &one.action {
        Action::Forward { cluster, .. } => Some(cluster.as_str()),
        _ => None,
    });
    let wanted: BTreeSet<_> = names.collect();
    let entries = config.clusters.iter();
    let entries = entries.filter(|entry| wanted.contains(&*entry.name));
    let steps = entries.map(|entry| match &entry.config {
        Ok(config) => cluster(config, source),
        Err(error) => ClusterStep {
            name: entry.name.to_string(),
            error: Some(format!("UNAVAILABLE: {error}")),
            ..ClusterStep::default()
        },
    });
    steps.collect()
}

fn cluster(config: &ClusterConfig, source: &impl ResourceSource) -> ClusterStep {
    let cluster = &config.cluster;
    let mut step = ClusterStep {
        name: cluster.name.to_string(),
        discovery: discovery(&cluster.discovery),
        balancing: match &cluster.discovery {
            Discovery::Aggregate(_) => "failover in order".to_owned(),
            _ => cluster.policy.to_string(),
        },
        ..ClusterStep::default()
    };
    // gRFC A37: the first priority with endpoints that can be reached takes all requests.
    let mut is_free = true;
    for leaf in &config.leaves {
        add_leaf(leaf, source, &mut is_free, &mut step);
    }
    if is_free {
        step.notes
            .push("no endpoint can be used: requests fail with UNAVAILABLE".to_owned());
    }
    step
}

fn discovery(discovery: &Discovery) -> String {
    match discovery {
        Discovery::Eds => "EDS".to_owned(),
        Discovery::LogicalDns(host) => format!("LOGICAL_DNS {host}"),
        Discovery::Aggregate(clusters) => format!("aggregate of {}", clusters.join(", ")),
    }
}

fn add_leaf(
    leaf: &LeafCluster,
    source: &impl ResourceSource,
    is_free: &mut bool,
    step: &mut ClusterStep,
) {
    if let Discovery::LogicalDns(host) = &leaf.cluster.discovery {
        let share = f64::from(u8::from(std::mem::take(is_free)));
        step.notes.push(format!("{host}: {NOT_LOOKED_UP}"));
        step.priorities.push(PriorityStep {
            cluster: leaf.cluster.name.to_string(),
            priority: 0,
            share,
            localities: Vec::new(),
        });
        return;
    }
    let Some(assignment) = &leaf.assignment else {
        let error = leaf.note.as_ref().map(ToString::to_string);
        step.notes.push(error.unwrap_or_default());
        return;
    };
    for drop in &assignment.drops {
        step.notes.push(format!(
            "drops {} by category {:?}",
            drop.share, drop.category
        ));
    }
    step.notes
        .extend(note(&leaf.cluster.policy).map(str::to_owned));
    let value = source.find(&ResourceType::ENDPOINT, &assignment.name);
    let proto = value.and_then(|value| ClusterLoadAssignment::from_bytes(&value).ok());
    let proto = proto.unwrap_or_default();
    for (priority, localities) in (0..).zip(&assignment.priorities) {
        let has_endpoints = localities.iter().any(|one| !one.endpoints.is_empty());
        let share = f64::from(u8::from(has_endpoints && *is_free));
        *is_free &= !has_endpoints;
        let of_priority = proto
            .endpoints
            .iter()
            .filter(|one| one.priority == priority);
        let shares = Shares::new(&leaf.cluster.policy, localities, share);
        step.priorities.push(PriorityStep {
            cluster: leaf.cluster.name.to_string(),
            priority,
            share,
            localities: of_priority
                .map(|one| locality(one, localities, &shares))
                .collect(),
        });
    }
}

/// Returns what the shares of a policy depend on.
fn note(policy: &PolicyConfig) -> Option<&'static str> {
    match policy {
        PolicyConfig::RoundRobin => None,
        PolicyConfig::PickFirst { shuffle: true } => {
            Some("one endpoint, chosen by chance, takes all requests of the channel")
        }
        PolicyConfig::PickFirst { shuffle: false } => {
            Some("the first endpoint that can be reached takes all requests")
        }
        PolicyConfig::RingHash { .. } => {
            Some("the hash of a request chooses its endpoint: shares are those of many hashes")
        }
        PolicyConfig::LeastRequest { .. } => Some(
            "of some endpoints, the one with the fewest requests is chosen: shares are those of equal load",
        ),
        PolicyConfig::WeightedRoundRobin(_) => {
            Some("weights come from load reports of the backends: shares are those without reports")
        }
        PolicyConfig::RandomSubsetting { .. } => Some(
            "a channel uses a random subset of the endpoints: shares are those of many channels",
        ),
        PolicyConfig::Custom(_) => {
            Some("the policy is the program's own: its shares are not examined")
        }
        PolicyConfig::WrrLocality(inner) => note(inner),
    }
}

/// Share of each endpoint of a priority.
struct Shares<'a> {
    policy: &'a PolicyConfig,
    of_priority: f64,
    /// Sum of the weights of the endpoints in the whole priority.
    total: f64,
    first: Option<SocketAddr>,
}

impl<'a> Shares<'a> {
    fn new(policy: &'a PolicyConfig, localities: &[Locality], of_priority: f64) -> Self {
        let used = localities.iter().filter(|one| !one.endpoints.is_empty());
        let first = used.clone().flat_map(|one| &one.endpoints).next();
        let mut shares = Self {
            policy,
            of_priority,
            total: 1.0,
            first: first.map(|endpoint| endpoint.address),
        };
        shares.total = used.map(|one| shares.weight(one)).sum();
        shares
    }

    /// Returns what a locality weighs among those of the priority.
    fn weight(&self, locality: &Locality) -> f64 {
        if is_by_locality(self.policy) {
            f64::from(locality.weight)
        } else if by_weight(self.policy) {
            // gRFC A42: the weight of an endpoint is multiplied by that of its locality.
            f64::from(locality.weight) * endpoint_weights(locality)
        } else {
            locality.endpoints.len() as f64
        }
    }

    fn of_locality(&self, locality: &Locality) -> f64 {
        if locality.endpoints.is_empty() {
            0.0
        } else {
            self.of_priority * self.weight(locality) / self.total
        }
    }

    /// Returns the share of an endpoint; `None` if only the program knows.
    fn of_endpoint(&self, locality: &Locality, address: SocketAddr, weight: u32) -> Option<f64> {
        let inner = match self.policy {
            PolicyConfig::WrrLocality(inner) => inner,
            policy => policy,
        };
        let within = match inner {
            PolicyConfig::Custom(_) => return None,
            PolicyConfig::PickFirst { shuffle: true } => return None,
            PolicyConfig::PickFirst { shuffle: false } => {
                let first = if is_by_locality(self.policy) {
                    locality.endpoints.first().map(|endpoint| endpoint.address)
                } else {
                    self.first
                };
                let is_first = f64::from(u8::from(first == Some(address)));
                return Some(if is_by_locality(self.policy) {
                    self.of_locality(locality) * is_first
                } else {
                    self.of_priority * is_first
                });
            }
            policy if by_weight(policy) => f64::from(weight) / endpoint_weights(locality),
            _ => 1.0 / locality.endpoints.len() as f64,
        };
        Some(self.of_locality(locality) * within)
    }
}

fn is_by_locality(policy: &PolicyConfig) -> bool {
    matches!(policy, PolicyConfig::WrrLocality(_))
}

/// Whether the weights of endpoints count.
fn by_weight(policy: &PolicyConfig) -> bool {
    matches!(policy, PolicyConfig::RingHash { .. })
}

fn endpoint_weights(locality: &Locality) -> f64 {
    let weights = locality.endpoints.iter();
    weights.map(|endpoint| f64::from(endpoint.weight)).sum()
}

/// Returns a locality of the resource, with what the view makes of its endpoints.
fn locality(
    proto: &LocalityLbEndpoints,
    localities: &[Locality],
    shares: &Shares<'_>,
) -> LocalityStep {
    let id = proto
        .locality
        .as_ref()
        .map(LocalityId::from)
        .unwrap_or_default();
    let view = localities.iter().find(|one| *one.id == id);
    let endpoints = proto.lb_endpoints.iter().map(|endpoint| {
        let address = endpoint_address(endpoint);
        let parsed: Option<SocketAddr> = address.parse().ok();
        let of = |all: &[crate::resource::Endpoint]| {
            let mut all = all.iter();
            all.find(|one| Some(one.address) == parsed).cloned()
        };
        let used = view.and_then(|view| Some((view, of(&view.endpoints)?)));
        let is_draining = view.is_some_and(|view| of(&view.draining).is_some());
        let unused = match (&used, view) {
            (Some(_), _) => None,
            (None, None) => Some("the locality has no weight".to_owned()),
            (None, Some(_)) if is_draining => Some("draining: only its sessions use it".to_owned()),
            (None, Some(_)) => Some("not healthy".to_owned()),
        };
        EndpointStep {
            address,
            health: health(endpoint.health_status),
            weight: endpoint.load_balancing_weight.map(|weight| weight.value),
            share: match used {
                Some((view, used)) => shares.of_endpoint(view, used.address, used.weight),
                None => Some(0.0),
            },
            unused,
        }
    });
    LocalityStep {
        name: locality_name(proto.locality.as_ref()),
        weight: proto.load_balancing_weight.map(|weight| weight.value),
        share: view.map_or(0.0, |view| shares.of_locality(view)),
        endpoints: endpoints.collect(),
    }
}

/// Returns the name of a locality.
pub(crate) fn locality_name(proto: Option<&LocalityProto>) -> String {
    proto
        .map(|proto| LocalityId::from(proto).to_string())
        .unwrap_or_default()
}

/// Returns the name of a health status.
pub(crate) fn health(status: i32) -> String {
    match HealthStatus::try_from(status) {
        Ok(status) => status.as_str_name().to_owned(),
        Err(_) => format!("status {status}"),
    }
}
