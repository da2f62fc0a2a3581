//! Route table as Envoy reads it.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    Route as RouteProto, RouteConfiguration, VirtualHost as HostProto,
};

use crate::explain::labels::{Label, Labels};
use crate::explain::model::RoutePlace;
use crate::lb::{Domain, best_domain};

use super::matcher::EnvoyMatcher;

/// A route configuration with its virtual hosts, those of VHDS included.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) source: String,
    /// The resource, without its virtual hosts.
    pub(super) config: Arc<RouteConfiguration>,
    pub(super) hosts: Arc<[Host]>,
}

/// A virtual host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) domains: Vec<Domain>,
    pub(super) routes: Vec<Route>,
    /// The resource, without its routes.
    pub(super) proto: HostProto,
}

/// A route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) proto: RouteProto,
    pub(super) matcher: EnvoyMatcher,
}

impl Table {
    /// Reads a route configuration, and virtual hosts that are added to it.
    ///
    /// # Errors
    /// The rule because of which Envoy rejects it.
    pub(super) fn new(
        mut config: RouteConfiguration,
        source: String,
        added: &[HostProto],
    ) -> Result<Self, String> {
        let mut protos = std::mem::take(&mut config.virtual_hosts);
        protos.extend_from_slice(added);
        let rejected = |rule| {
            format!(
                "Envoy rejects route configuration {:?}: {rule}",
                config.name
            )
        };
        let mut known = BTreeSet::new();
        let mut hosts = Vec::with_capacity(protos.len());
        for proto in protos {
            let host = Host::new(proto).map_err(rejected)?;
            for domain in &host.domains {
                if !known.insert(domain.to_string()) {
                    return Err(rejected(format!("domain {domain} is there twice")));
                }
            }
            hosts.push(host);
        }
        Ok(Self {
            source,
            config: Arc::new(config),
            hosts: hosts.into(),
        })
    }

    /// Returns the virtual host for an authority in lower case, and the domain that matches.
    pub(super) fn find(&self, authority: &str) -> Option<(usize, &Host, &Domain)> {
        let hosts = self.hosts.iter().enumerate();
        let domains =
            hosts.flat_map(|(index, host)| host.domains.iter().map(move |one| (index, one)));
        let (index, domain) = best_domain(domains, authority)?;
        Some((index, self.hosts.get(index)?, domain))
    }

    /// Returns the places of all routes.
    pub(super) fn places(&self) -> Vec<RoutePlace> {
        let hosts = self.hosts.iter().enumerate();
        let places = hosts.flat_map(|(host, own)| {
            let routes = own.routes.iter().enumerate();
            routes.map(move |(route, one)| RoutePlace {
                route_config: self.config.name.clone(),
                host,
                host_name: own.proto.name.clone(),
                route,
                name: one.proto.name.clone(),
                condition: one.matcher.to_string(),
            })
        });
        places.collect()
    }

    pub(super) fn labels(&self) -> Labels<'_> {
        Labels(
            self.hosts
                .iter()
                .map(|host| {
                    let routes = host.routes.iter();
                    routes.map(Route::label).collect()
                })
                .collect(),
        )
    }
}

impl Route {
    fn label(&self) -> Label<'_> {
        let specifier = match &self.proto.action {
            Some(Action::Route(action)) => action.cluster_specifier.as_ref(),
            _ => None,
        };
        Label {
            name: &self.proto.name,
            has_plugin: matches!(
                specifier,
                Some(
                    ClusterSpecifier::ClusterSpecifierPlugin(_)
                        | ClusterSpecifier::InlineClusterSpecifierPlugin(_)
                )
            ),
        }
    }
}

impl Host {
    fn new(mut proto: HostProto) -> Result<Self, String> {
        let routes = std::mem::take(&mut proto.routes).into_iter().enumerate();
        let name = &proto.name;
        let routes = routes.map(|(index, route)| {
            let matcher = EnvoyMatcher::new(route.r#match.as_ref());
            let matcher = matcher.map_err(|invalid| {
                format!("virtual host {name:?}, routes[{index}].match: {invalid}")
            })?;
            Ok(Route {
                proto: route,
                matcher,
            })
        });
        let routes = routes.collect::<Result<_, String>>()?;
        let domains = proto.domains.iter().map(|domain| {
            // Envoy, unlike gRPC, takes a `*` in the middle as itself.
            let as_name = || Domain::Exact(domain.to_ascii_lowercase().into());
            Domain::parse(domain).unwrap_or_else(as_name)
        });
        Ok(Self {
            domains: domains.collect(),
            routes,
            proto,
        })
    }
}
