//! What the resources say the traffic should be.
//!
//! Derived from the snapshot that the server serves, without the channel: the demo holds what the
//! channel does against it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::{Headers, choose_virtual_host};
use oxds_core::resource::{
    Assignment, Cluster, Listener, Locality, LocalityId, RouteAction, RouteConfig, RouteSource,
    RouteTarget, Typed,
};
use oxds_core::snapshot::Snapshot;

/// The method that the demo calls; the backends answer any.
pub(super) const METHOD: &str = "/demo.Echo/Call";

/// Every service of a snapshot: the API listeners, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) services: Vec<Service>,
}

/// What `xds:///name` should do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Service {
    pub(super) name: Arc<str>,
    /// Where its calls should go, reserves included; or why that cannot be said.
    pub(super) endpoints: Result<Vec<Endpoint>, String>,
}

/// An endpoint of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Endpoint {
    pub(super) cluster: Arc<str>,
    pub(super) locality: Arc<LocalityId>,
    pub(super) priority: usize,
    pub(super) address: SocketAddr,
    /// Of the service's calls; zero for a reserve.
    pub(super) share: f64,
}

impl Plan {
    /// Reads the resources.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let listeners = snapshot.of_type(&Listener::resource_type()).collection();
        let mut services = Vec::new();
        for resource in listeners.iter() {
            let name = Arc::clone(resource.name());
            match Listener::parse(&resource.value()) {
                // A listener with a socket is Envoy's business.
                Ok(listener) if listener.api.is_none() => {}
                Ok(listener) => services.push(Service {
                    endpoints: endpoints(snapshot, &listener),
                    name,
                }),
                Err(invalid) => services.push(Service {
                    endpoints: Err(invalid.to_string()),
                    name,
                }),
            }
        }
        Self { services }
    }

    /// Where a backend should be.
    pub(super) fn addresses(&self) -> BTreeSet<SocketAddr> {
        let endpoints = self
            .services
            .iter()
            .flat_map(|s| s.endpoints.iter().flatten());
        endpoints.map(|endpoint| endpoint.address).collect()
    }
}

fn endpoints(snapshot: &Snapshot, listener: &Listener) -> Result<Vec<Endpoint>, String> {
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
        return Err(format!("there is no {} {name}", T::resource_type()));
    };
    T::parse(&resource.value()).map_err(|invalid| invalid.to_string())
}

/// The clusters of the first route that takes the demo's calls, and their shares.
fn clusters(routes: &RouteConfig, authority: &str) -> Result<Vec<(Arc<str>, f64)>, String> {
    let host = choose_virtual_host(&routes.virtual_hosts, authority)
        .and_then(|index| routes.virtual_hosts.get(index))
        .ok_or_else(|| format!("{}: no virtual host for {authority}", routes.name))?;
    let mut matching = host.routes.iter();
    let route = matching
        .find(|route| route.matcher.matches(METHOD, &NoHeaders, || 0))
        .ok_or_else(|| format!("{}: no route for {METHOD}", routes.name))?;
    match &route.action {
        RouteAction::Unsupported => Err(format!("{}: the route forwards nowhere", routes.name)),
        RouteAction::Forward(forward) => Ok(match &forward.target {
            RouteTarget::Cluster(name) => vec![(Arc::clone(name), 1.0)],
            RouteTarget::Weighted(weighted) => {
                let total: f64 = weighted.iter().map(|(_, weight)| f64::from(*weight)).sum();
                let share = |(name, weight): &(Arc<str>, u32)| {
                    (Arc::clone(name), f64::from(*weight) / total)
                };
                weighted.iter().map(share).collect()
            }
        }),
    }
}

/// A cluster's calls go to its first priority that has endpoints (the backends of the demo do not
/// fail), to its localities by weight, and evenly to the endpoints of each.
fn add_cluster(all: &mut Vec<Endpoint>, cluster: &Arc<str>, share: f64, assignment: &Assignment) {
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
            all.extend(locality.endpoints.iter().map(|endpoint| Endpoint {
                cluster: Arc::clone(cluster),
                locality: Arc::clone(&locality.id),
                priority,
                address: endpoint.address,
                share: of_locality / f64::from(count),
            }));
        }
    }
}

/// The demo's calls carry no headers that a route could ask for.
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

    /// The example, served; `edit` changes its text first.
    pub(crate) fn shop(edit: impl Fn(String) -> String) -> Arc<Snapshot> {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
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

    /// Port and share of each endpoint of a service.
    fn shares(plan: &Plan, service: &str) -> Vec<(u16, f64)> {
        let service = plan.services.iter().find(|s| &*s.name == service).unwrap();
        let endpoints = service.endpoints.as_ref().unwrap().iter();
        endpoints
            .map(|e| (e.address.port(), (e.share * 1e6).round() / 1e6))
            .collect()
    }

    #[test]
    fn shares_follow_clusters_localities_and_priorities() {
        let plan = Plan::of(&shop(|text| text));
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
    fn an_unhealthy_priority_hands_over_to_the_next() {
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
            shares(&Plan::of(&shop(unhealthy)), "catalog"),
            [(18107, 1.0)]
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut changes = ChangeSet::default();
        changes
            .removals
            .push((RouteConfig::resource_type(), "catalog-routes".into()));
        let (snapshot, _) = shop(|text| text).apply(changes);
        let plan = Plan::of(&snapshot);
        let why = plan.services[0].endpoints.as_ref().unwrap_err();
        assert!(why.contains("rds catalog-routes"), "{why}");
        assert!(
            plan.services[1].endpoints.is_ok(),
            "the other is not affected"
        );
    }
}
