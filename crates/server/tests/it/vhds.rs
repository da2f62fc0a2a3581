//! On-demand virtual hosts, as Envoy asks for them (VHDS).

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::Server;
use oxds_types::ResourceType;
use oxds_types::discovery::DeltaDiscoveryResponse;

use crate::Running;
use crate::client::{DELTA, Stream, ack_delta, subscribe};

const VHDS: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

fn host(name: &str, domains: &[&str]) -> Resource {
    let host = VirtualHost {
        name: name.into(),
        domains: domains.iter().map(ToString::to_string).collect(),
        ..VirtualHost::default()
    };
    Resource::own(name, &host)
}

/// Returns the aliases of each resource by its name; without a body, the name ends with `-`.
fn aliases(response: &DeltaDiscoveryResponse) -> BTreeMap<String, Vec<String>> {
    let resources = response.resources.iter();
    resources
        .map(|one| {
            let body = if one.resource.is_some() { "" } else { "-" };
            (format!("{}{body}", one.name), one.aliases.clone())
        })
        .collect()
}

fn expected(resources: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let text = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let resources = resources.iter();
    resources
        .map(|(name, aliases)| (name.to_string(), text(aliases)))
        .collect()
}

struct Asking(Stream);

impl Asking {
    /// Opens a stream that asks for these names.
    async fn open(server: &Running, names: &[&str]) -> Self {
        let stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&subscribe(VHDS, names));
        Self(stream)
    }

    fn ask(&self, added: &[&str], removed: &[&str]) {
        let mut request = subscribe(VHDS, added);
        request.node = None;
        request.resource_names_unsubscribe = removed.iter().map(ToString::to_string).collect();
        self.0.send(&request);
    }

    async fn gets(&mut self, resources: &[(&str, &[&str])]) {
        let response = self.0.delta().await;
        assert_eq!(aliases(&response), expected(resources));
        self.0.send(&ack_delta(&response));
    }
}

async fn serve(hosts: impl IntoIterator<Item = Resource>) -> Running {
    let server = Running::start(Server::builder()).await;
    server.cache.apply(hosts.into_iter().collect());
    server
}

/// Given virtual hosts of a route configuration: a request for a host gets the one that Envoy would choose, with the
/// requested name as an alias. Another host of it is asked for: it comes again, with both. A host that none matches is
/// reported as missing.
#[tokio::test]
async fn virtual_host_is_found_by_domain() {
    let server = serve([
        host("r/shop", &["shop.example", "*.shop.example"]),
        host("r/other", &["other.example"]),
        host("else/any", &["*"]),
    ])
    .await;
    let mut envoy = Asking::open(&server, &["r/www.shop.example"]).await;
    envoy
        .gets(&[("r/shop", &["r/shop", "r/www.shop.example"])])
        .await;
    envoy.ask(&["r/shop.example"], &[]);
    let both = ["r/shop", "r/shop.example", "r/www.shop.example"];
    envoy.gets(&[("r/shop", &both)]).await;
    envoy.ask(&["r/unknown.example:80"], &[]);
    envoy
        .gets(&[("r/unknown.example:80-", &["r/unknown.example:80"])])
        .await;
    // By the stored name, as before.
    envoy.ask(&["r/other"], &[]);
    envoy.gets(&[("r/other", &["r/other"])]).await;
}

/// Given a requested host: changes of its virtual host are sent. When another one matches it better, then that is sent
/// with the alias. When all are removed, then the name is reported as missing; when one is added, it is sent.
#[tokio::test]
async fn requested_host_follows_the_virtual_hosts() {
    let asked = "r/www.shop.example";
    let server = serve([host("r/any", &["*"])]).await;
    let mut envoy = Asking::open(&server, &[asked]).await;
    envoy.gets(&[("r/any", &["r/any", asked])]).await;
    let changes = ChangeSet::default();
    server
        .cache
        .apply(changes.put(host("r/any", &["*", "more"])));
    envoy.gets(&[("r/any", &["r/any", asked])]).await;
    let changes = ChangeSet::default();
    server
        .cache
        .apply(changes.put(host("r/shop", &["*.shop.example"])));
    envoy.gets(&[("r/shop", &["r/shop", asked])]).await;
    let changes = ["r/any", "r/shop"].into_iter();
    let changes = changes.fold(ChangeSet::default(), |changes, name| {
        changes.remove(ResourceType::VIRTUAL_HOST, name)
    });
    server.cache.apply(changes);
    envoy
        .gets(&[
            ("r/any-", &["r/any"]),
            ("r/shop-", &["r/shop"]),
            (&format!("{asked}-"), &[asked]),
        ])
        .await;
    let changes = ChangeSet::default();
    server
        .cache
        .apply(changes.put(host("r/new", &["www.shop.example"])));
    envoy.gets(&[("r/new", &["r/new", asked])]).await;
}

/// Given a route configuration that ignores ports: a host with a port finds the virtual host without it.
#[tokio::test]
async fn port_is_ignored_as_the_route_configuration_says() {
    let routes = |ignores| {
        let routes = RouteConfiguration {
            name: "r".into(),
            ignore_port_in_host_matching: ignores,
            ..RouteConfiguration::default()
        };
        Resource::own("r", &routes)
    };
    for ignores in [false, true] {
        let server = serve([host("r/shop", &["shop.example"]), routes(ignores)]).await;
        let asked = "r/shop.example:8080";
        let mut envoy = Asking::open(&server, &[asked]).await;
        if ignores {
            envoy.gets(&[("r/shop", &["r/shop", asked])]).await;
        } else {
            envoy.gets(&[(&format!("{asked}-"), &[asked])]).await;
        }
    }
}

/// Given a client that reconnects with a virtual host that it had on demand: the answer to its name comes again, since
/// it may wait for it. A virtual host that is gone is reported.
#[tokio::test]
async fn reconnected_client_gets_its_virtual_hosts() {
    let server = serve([host("r/shop", &["shop.example"])]).await;
    let asked = "r/shop.example";
    let mut envoy = Asking::open(&server, &[asked]).await;
    let response = envoy.0.delta().await;
    let version = response.resources[0].version.clone();
    drop(envoy);
    let stream = Stream::open(server.grpc, DELTA).await;
    let mut request = subscribe(VHDS, &[asked]);
    request.initial_resource_versions =
        [("r/shop".into(), version), ("r/gone".into(), "v".into())].into();
    stream.send(&request);
    let mut envoy = Asking(stream);
    envoy
        .gets(&[("r/gone-", &["r/gone"]), ("r/shop", &["r/shop", asked])])
        .await;
    // The last name that selects it is given up: nothing of it is sent any more.
    envoy.ask(&["r/none"], &[asked]);
    envoy.gets(&[("r/none-", &["r/none"])]).await;
    let changes = ChangeSet::default().put(host("r/shop", &["shop.example", "x"]));
    server.cache.apply(changes.put(host("r/none", &["none"])));
    envoy.gets(&[("r/none", &["r/none"])]).await;
}
