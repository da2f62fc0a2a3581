//! The expected traffic, derived from the resources.
//!
//! The plan is computed from the server's snapshot and not from the channel, because the demo compares
//! the channel's traffic with it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::Headers;
use oxds_core::resource::{
    Assignment, Cluster, Listener, Locality, LocalityId, RouteAction, RouteConfig, RouteSource,
    RouteTarget, Typed, WeightedTarget,
};
use oxds_core::snapshot::Snapshot;

/// The method that the demo calls; the backends answer any.
pub(super) const METHOD: &str = "/demo.Echo/Call";

/// Every service of a snapshot: the API listeners, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TrafficPlan {
    pub(super) services: Vec<PlannedService>,
}

/// Expected traffic of `xds:///name`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedService {
    pub(super) name: Arc<str>,
    /// Endpoints of the cluster, including standbys, or the reason why they are unknown.
    pub(super) endpoints: Result<Vec<PlannedEndpoint>, String>,
}

/// An endpoint of a service, with its expected share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedEndpoint {
    pub(super) cluster: Arc<str>,
    pub(super) locality: Arc<LocalityId>,
    pub(super) priority: usize,
    pub(super) address: SocketAddr,
    /// Expected part of the service's calls, from 0 to 1; zero for a standby.
    pub(super) share: f64,
}

impl TrafficPlan {
    /// Computes the plan of a snapshot.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let listeners = snapshot.of_type(&Listener::resource_type()).collection();
        let mut services = Vec::new();
        for resource in listeners.iter() {
            let name = Arc::clone(resource.name());
            match Listener::parse(&resource.value()) {
                // gRPC clients do not use socket listeners: those are for Envoy.
                Ok(listener) if listener.api.is_none() => {}
                Ok(listener) => services.push(PlannedService {
                    endpoints: endpoints(snapshot, &listener),
                    name,
                }),
                Err(invalid) => services.push(PlannedService {
                    endpoints: Err(invalid.to_string()),
                    name,
                }),
            }
        }
        Self { services }
    }

    /// Returns the addresses that need a backend.
    pub(super) fn addresses(&self) -> BTreeSet<SocketAddr> {
        let endpoints = self
            .services
            .iter()
            .flat_map(|s| s.endpoints.iter().flatten());
        endpoints.map(|endpoint| endpoint.address).collect()
    }
}

fn endpoints(snapshot: &Snapshot, listener: &Listener) -> Result<Vec<PlannedEndpoint>, String> {
    let Some(api) = &listener.api else {
        return Err(format!("listener {} has no api_listener", listener.name));
    };
    let routes = match &api.routes {
        RouteSource::Inline(routes) => Arc::clone(routes),
        RouteSource::Rds(name) => Arc::new(view::<RouteConfig>(snapshot, name)?),
    };
    let mut endpoints = Vec::new();
    for (name, share) in clusters(&routes, &listener.name)? {
        let cluster = view::<Cluster>(snapshot, &name)?;
        let assignment = view::<Assignment>(snapshot, &cluster.eds_service_name)?;
        add_cluster(&mut endpoints, &name, share, &assignment);
    }
    Ok(endpoints)
}

fn view<T: Typed>(snapshot: &Snapshot, name: &str) -> Result<T, String> {
    let Some(resource) = snapshot.get(&T::resource_type(), name) else {
        return Err(format!("{} {name} not found", T::resource_type()));
    };
    T::parse(&resource.value()).map_err(|invalid| invalid.to_string())
}

/// Returns the clusters of the first route that matches the demo's calls, and their shares.
fn clusters(routes: &RouteConfig, authority: &str) -> Result<Vec<(Arc<str>, f64)>, String> {
    let host = routes
        .choose_virtual_host(authority)
        .and_then(|index| routes.virtual_hosts.get(index))
        .ok_or_else(|| format!("{}: no virtual host matches {authority}", routes.name))?;
    let mut matching = host.routes.iter();
    let route = matching
        .find(|route| route.matcher.matches(METHOD, &NoHeaders, || 0))
        .ok_or_else(|| format!("{}: no route matches {METHOD}", routes.name))?;
    match &route.action {
        RouteAction::NonForwarding | RouteAction::Unsupported => {
            Err(format!("{}: route action is not a cluster", routes.name))
        }
        RouteAction::Forward(forward) => Ok(match &forward.target {
            RouteTarget::Cluster(name) => vec![(Arc::clone(name), 1.0)],
            RouteTarget::Weighted(weighted) => {
                let weights = weighted.iter().map(|target| f64::from(target.weight));
                let total: f64 = weights.sum();
                let share = |target: &WeightedTarget| {
                    (
                        Arc::clone(&target.cluster),
                        f64::from(target.weight) / total,
                    )
                };
                weighted.iter().map(share).collect()
            }
        }),
    }
}

/// Adds the endpoints of a cluster. Its calls go to the first priority that has endpoints (the demo's
/// backends do not fail), to its localities by weight, and evenly to the endpoints of each.
fn add_cluster(
    all: &mut Vec<PlannedEndpoint>,
    cluster: &Arc<str>,
    share: f64,
    assignment: &Assignment,
) {
    let usable = |localities: &Vec<Locality>| localities.iter().any(|l| !l.endpoints.is_empty());
    let active = assignment.priorities.iter().position(usable);
    for (priority, localities) in assignment.priorities.iter().enumerate() {
        let with_endpoints = || localities.iter().filter(|l| !l.endpoints.is_empty());
        let total: f64 = with_endpoints().map(|l| f64::from(l.weight)).sum();
        for locality in with_endpoints() {
            let of_locality = if active == Some(priority) {
                share * f64::from(locality.weight) / total
            } else {
                0.0
            };
            let count = u32::try_from(locality.endpoints.len()).unwrap_or(u32::MAX);
            all.extend(locality.endpoints.iter().map(|endpoint| PlannedEndpoint {
                cluster: Arc::clone(cluster),
                locality: Arc::clone(&locality.id),
                priority,
                address: endpoint.address,
                share: of_locality / f64::from(count),
            }));
        }
    }
}

/// The headers of the demo's calls: none that a route could match.
struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use oxds_core::snapshot::ChangeSet;
    use oxds_server::dir;

    use super::*;

    /// Returns a snapshot of the example; `edit` changes the text of each file first.
    pub(crate) fn shop(edit: impl Fn(String) -> String) -> Arc<Snapshot> {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("shop");
        let copy = tempfile::tempdir().unwrap();
        for service in ["catalog", "checkout"] {
            for file in std::fs::read_dir(example.join(service)).unwrap() {
                let file = file.unwrap();
                let name = format!("{service}-{}", file.file_name().display());
                let text = edit(std::fs::read_to_string(file.path()).unwrap());
                std::fs::write(copy.path().join(name), text).unwrap();
            }
        }
        let report = dir::load(copy.path(), &dir::Options::default()).unwrap();
        assert_eq!(report.findings, []);
        let upserts = report.resources;
        let changes = ChangeSet {
            upserts,
            ..ChangeSet::default()
        };
        Snapshot::unloaded().apply(changes).0
    }

    /// Returns port and share of each endpoint of a service.
    fn shares(plan: &TrafficPlan, service: &str) -> Vec<(u16, f64)> {
        let service = plan.services.iter().find(|s| &*s.name == service).unwrap();
        let endpoints = service.endpoints.as_ref().unwrap().iter();
        endpoints
            .map(|e| (e.address.port(), (e.share * 1e6).round() / 1e6))
            .collect()
    }

    #[test]
    fn shares_follow_clusters_localities_and_priorities() {
        let plan = TrafficPlan::of(&shop(|text| text));
        let checkout = [
            (18101, 0.3375),
            (18102, 0.3375),
            (18103, 0.225),
            (18104, 0.1),
        ];
        assert_eq!(shares(&plan, "checkout"), checkout);
        assert_eq!(
            shares(&plan, "catalog"),
            [(18105, 0.5), (18106, 0.5), (18107, 0.0)]
        );
        assert_eq!(plan.addresses().len(), 7);
    }

    #[test]
    fn unhealthy_priority_moves_calls_to_the_next() {
        let unhealthy = |text: String| {
            let (near, far) = text.split_once("- priority: 1").unwrap_or((&text, ""));
            let near = near.replace("health_status: HEALTHY", "health_status: UNHEALTHY");
            if far.is_empty() {
                near
            } else {
                format!("{near}- priority: 1{far}")
            }
        };
        assert_eq!(
            shares(&TrafficPlan::of(&shop(unhealthy)), "catalog"),
            [(18107, 1.0)]
        );
    }

    #[test]
    fn missing_resource_is_the_reason_of_its_service() {
        let mut changes = ChangeSet::default();
        changes
            .removals
            .push((RouteConfig::resource_type(), "catalog-routes".into()));
        let (snapshot, _) = shop(|text| text).apply(changes);
        let plan = TrafficPlan::of(&snapshot);
        let reason = plan.services[0].endpoints.as_ref().unwrap_err();
        assert_eq!(reason, "rds catalog-routes not found");
        assert!(
            plan.services[1].endpoints.is_ok(),
            "the other is not affected"
        );
    }
}
