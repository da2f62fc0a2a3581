//! The resolver, against a client that the test plays.

mod aggregate;
mod assembly;
mod changes;
mod dns;
mod failures;
mod server;

use std::borrow::Cow;
use std::sync::Arc;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::lb::Headers;
use oxds_core::resolve::{CompiledAction, Resolver, WatchCommand, XdsConfig};
use oxds_core::resource::{ParsedResource, ResourceParsers, own_name};
use oxds_types::ResourceType;

use crate::support::text;

/// The resolver of listener `l` for RPCs to `svc`.
struct Played {
    resolver: Resolver,
}

impl Played {
    fn new() -> Self {
        Self {
            resolver: Resolver::new("l", "svc"),
        }
    }

    /// In use: listener `l`, routes `r`, which send everything to cluster `a`.
    fn serving() -> (Self, Arc<XdsConfig>) {
        let mut played = Self::new();
        played.got(&ResourceType::LISTENER, &listener("r"));
        played.commands();
        played.got(&ResourceType::ROUTE, &routes("r", "a"));
        played.commands();
        played.got(&ResourceType::CLUSTER, &cluster("a"));
        played.commands();
        played.got(&ResourceType::ENDPOINT, &assignment("a", 1));
        let config = played.config();
        played.commands();
        (played, config)
    }

    /// A resource arrives.
    fn got(&mut self, resource_type: &ResourceType, text: &str) {
        let (name, resource) = parsed(resource_type, text);
        self.resolver
            .handle_resource(resource_type, &name, &Ok(resource));
    }

    fn failed(
        &mut self,
        resource_type: &ResourceType,
        name: &str,
        reason: WatchErrorReason,
        text: &str,
    ) {
        let error = Err(WatchError::new(reason, text));
        self.resolver.handle_resource(resource_type, name, &error);
    }

    /// Commands to the client, as text.
    fn commands(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.resolver.poll_command())
            .map(words)
            .collect()
    }

    /// Returns the configuration that is announced.
    fn config(&mut self) -> Arc<XdsConfig> {
        match self.resolver.poll_config() {
            Some(Ok(config)) => config,
            other => panic!("no configuration: {other:?}"),
        }
    }

    /// Returns the error that is announced.
    fn error(&mut self) -> String {
        match self.resolver.poll_config() {
            Some(Err(error)) => error.to_string(),
            other => panic!("no error: {other:?}"),
        }
    }

    /// Checks that nothing is announced.
    #[track_caller]
    fn silent(&mut self) {
        let announced = self.resolver.poll_config();
        assert!(announced.is_none(), "announced {announced:?}");
    }
}

/// Returns a resource with its name.
fn parsed(resource_type: &ResourceType, text: &str) -> (String, ParsedResource) {
    let value = text::bytes(resource_type, text);
    let name = own_name(&value).unwrap().into_owned();
    let parsed = ResourceParsers::grpc().parse(resource_type, &value);
    (name, parsed.unwrap())
}

/// Returns a command as text.
fn words(command: WatchCommand) -> String {
    let (verb, resource_type, name) = match command {
        WatchCommand::Watch(resource_type, name) => ("watch", resource_type, name),
        WatchCommand::Unwatch(resource_type, name) => ("unwatch", resource_type, name),
        WatchCommand::Resolve(host) => return format!("resolve {host}"),
        WatchCommand::Forget(host) => return format!("forget {host}"),
    };
    format!("{verb} {} {name}", resource_type.short_name().unwrap())
}

struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }
}

/// Returns the cluster of an RPC to a path, with the port of its endpoints, or an error.
fn served_by(config: &XdsConfig, path: &str) -> String {
    let route = config.route(path, &NoHeaders, || 0).expect("a route");
    let CompiledAction::Forward { clusters, .. } = &route.action else {
        return "unsupported".to_owned();
    };
    let entry = &config.clusters[clusters.pick(0).cluster];
    match &entry.config {
        Err(error) => format!("{}: {error}", entry.name),
        Ok(config) => match (&config.leaves[0].assignment, &config.leaves[0].note) {
            (Some(assignment), None) => {
                let ports = assignment.endpoints().map(|e| e.address.port().to_string());
                format!("{}:{}", entry.name, ports.collect::<Vec<_>>().join(","))
            }
            (None, Some(note)) => format!("{}: no endpoints: {note}", entry.name),
            other => panic!("either endpoints or a note, not {other:?}"),
        },
    }
}

const ROUTER: &str = "http_filters { name: 'router' typed_config {
    [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router] {} } }";

/// Listener `l` with this HttpConnectionManager.
fn listener_with(manager: &str) -> String {
    format!(
        "name: 'l' api_listener {{ api_listener {{
           [type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager]
           {{ {manager} {ROUTER} }} }} }}"
    )
}

/// Listener `l`, with its routes in this resource.
fn listener(routes: &str) -> String {
    listener_with(&format!(
        "rds {{ route_config_name: '{routes}' config_source {{ ads {{}} }} }}"
    ))
}

/// Routes of the virtual host for `svc`: each cluster by a path of its name, `/a` to `a`; all other paths to the first
/// one.
fn routes(name: &str, clusters: &str) -> String {
    let by_path: String = clusters
        .split(' ')
        .map(|cluster| {
            format!("routes {{ match {{ path: '/{cluster}' }} route {{ cluster: '{cluster}' }} }}")
        })
        .collect();
    let first = clusters.split(' ').next().unwrap();
    format!(
        "name: '{name}' virtual_hosts {{ name: 'h' domains: 'svc' {by_path}
           routes {{ match {{ prefix: '' }} route {{ cluster: '{first}' }} }} }}"
    )
}

fn cluster(name: &str) -> String {
    cluster_of(name, "")
}

/// A cluster whose assignment has its own name.
fn cluster_of(name: &str, assignment: &str) -> String {
    format!(
        "name: '{name}' type: EDS eds_cluster_config {{ service_name: '{assignment}' eds_config {{ ads {{}} }} }}"
    )
}

/// An aggregate of these clusters.
fn aggregate(name: &str, clusters: &str) -> String {
    let clusters: String = clusters
        .split(' ')
        .map(|cluster| format!("clusters: '{cluster}' "))
        .collect();
    format!(
        "name: '{name}' lb_policy: CLUSTER_PROVIDED cluster_type {{ name: 'envoy.clusters.aggregate' typed_config {{
           [type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig] {{ {clusters} }} }} }}"
    )
}

/// One endpoint, with this port.
fn assignment(name: &str, port: u16) -> String {
    format!(
        "cluster_name: '{name}' endpoints {{ locality {{}} load_balancing_weight {{ value: 1 }}
           lb_endpoints {{ endpoint {{ address {{ socket_address {{ address: '::1' port_value: {port} }} }} }} }} }}"
    )
}
