//! A server, its control plane, and the resources between them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use oxds_client::bootstrap::Builder as BootstrapBuilder;
use oxds_client::{Bootstrap, ClientPool};
use oxds_grpc_server::{Builder, ListenerStatus, ServingMode, XdsServer};
use oxds_testkit::{AdsStream, ControlPlane, SOON};
use oxds_types::ResourceType;
use oxds_types::codec::{Format, Options, decode};
use oxds_types::discovery::{Any, DiscoveryRequest};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::Client;
use crate::echo::Echo;

/// A serving address, and its control plane.
pub(crate) struct World {
    pub(crate) control_plane: ControlPlane,
    pub(crate) stream: AdsStream,
    pub(crate) server: XdsServer,
    pub(crate) address: SocketAddr,
    pub(crate) echo: Echo,
    pub(crate) pool: ClientPool,
    modes: mpsc::UnboundedReceiver<ServingMode>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    version: u32,
}

pub(crate) fn bootstrap(control_plane: &ControlPlane) -> BootstrapBuilder {
    Bootstrap::builder(control_plane.address().to_string())
        .node_id("test-node")
        .server_listener_template("server/%s")
}

pub(crate) fn pool(control_plane: &ControlPlane) -> ClientPool {
    ClientPool::new(bootstrap(control_plane).build().unwrap())
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|builder, _| builder).await
    }

    /// Starts a server whose builder the test changes. Its control plane has not answered.
    pub(crate) async fn start_with(change: impl FnOnce(Builder, &ClientPool) -> Builder) -> Self {
        let control_plane = ControlPlane::start().await.unwrap();
        let pool = pool(&control_plane);
        Self::start_by(control_plane, pool, change).await
    }

    /// Starts a server with this pool, whose builder the test changes.
    pub(crate) async fn start_by(
        control_plane: ControlPlane,
        pool: ClientPool,
        change: impl FnOnce(Builder, &ClientPool) -> Builder,
    ) -> Self {
        let echo = Echo::new();
        let (sender, modes) = mpsc::unbounded_channel();
        let builder = XdsServer::builder()
            .add_service(echo.clone())
            .clients(pool.clone())
            .on_serving_mode(move |_, mode| drop(sender.send(mode.clone())));
        let server = change(builder, &pool).build().unwrap();
        let bound = server.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.local_addr();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(bound.serve_with_shutdown(async {
            // A dropped sender is a shutdown, too.
            let _ = stopped.await;
        }));
        let stream = control_plane.next_stream().await.unwrap();
        Self {
            control_plane,
            stream,
            server,
            address,
            echo,
            pool,
            modes,
            stop: Some(stop),
            running,
            version: 0,
        }
    }

    /// Starts a server that accepts all calls.
    pub(crate) async fn serving() -> Self {
        Self::serving_with(|builder| builder).await
    }

    pub(crate) async fn serving_with(change: impl FnOnce(Builder) -> Builder) -> Self {
        let mut world = Self::start_with(|builder, _| change(builder)).await;
        world.serve_all();
        assert_eq!(world.mode().await, ServingMode::Serving);
        world
    }

    /// Sends a listener that accepts all calls.
    pub(crate) fn serve_all(&mut self) {
        self.send_listener(&default_chain(&inline(ALL)));
    }

    /// Sends the listener of the address with these fields.
    pub(crate) fn send_listener(&mut self, fields: &str) {
        let listener = listener(self.address, fields);
        self.respond(&ResourceType::LISTENER, vec![resource(&listener)]);
    }

    /// Sends route configurations, their YAML documents, once the server has requested them: a response that comes
    /// before the request for it may be ignored.
    pub(crate) async fn send_routes(&mut self, documents: &[String]) {
        let routes: Vec<Any> = documents
            .iter()
            .map(|document| resource(document))
            .collect();
        let name = |any: &Any| RouteConfiguration::decode(&*any.value).unwrap().name;
        let names: Vec<String> = routes.iter().map(name).collect();
        while !self.requests_routes(&names) {
            self.stream.request().await.unwrap();
        }
        self.respond(&ResourceType::ROUTE, routes);
    }

    /// Whether the last request for routes has these names.
    fn requests_routes(&self, names: &[String]) -> bool {
        let url = ResourceType::ROUTE.type_url();
        let mut requests = self.stream.requests().iter().rev();
        let last = requests.find(|request| *request.type_url == *url);
        last.is_some_and(|last| names.iter().all(|name| last.resource_names.contains(name)))
    }

    pub(crate) fn respond(&mut self, resource_type: &ResourceType, resources: Vec<Any>) {
        self.version += 1;
        let version = self.version.to_string();
        self.stream.respond(resource_type, &version, resources);
    }

    /// Returns the next serving mode.
    pub(crate) async fn mode(&mut self) -> ServingMode {
        let mode = timeout(SOON, self.modes.recv()).await;
        mode.expect("a change in time").expect("a server")
    }

    /// Returns the reason of the next serving mode, which must be not serving.
    pub(crate) async fn not_serving(&mut self) -> Arc<str> {
        match self.mode().await {
            ServingMode::NotServing(reason) => reason,
            other => panic!("{other}"),
        }
    }

    /// Checks that the serving mode has not changed.
    pub(crate) fn same_mode(&mut self) {
        assert_eq!(self.modes.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    /// Returns the next request of a type that answers the last response.
    pub(crate) async fn answer(&mut self) -> DiscoveryRequest {
        loop {
            let request = self.stream.request().await.unwrap();
            if Some(&*request.response_nonce) == self.stream.last_nonce() {
                return request;
            }
        }
    }

    /// Returns the error with which the server rejects the last response.
    pub(crate) async fn nack(&mut self) -> String {
        let request = self.answer().await;
        request.error_detail.expect("a NACK").message
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Checks that connections are refused.
    pub(crate) async fn refuses(&self) {
        let refused = tokio::net::TcpStream::connect(self.address).await;
        let error = refused.expect_err("the port is closed");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }

    /// Begins to shut the server down.
    pub(crate) fn shut_down(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(&mut self) {
        let ended = timeout(SOON, &mut self.running).await;
        ended.expect("ended in time").unwrap();
    }

    pub(crate) fn status(&self) -> ListenerStatus {
        self.server.status().listeners.remove(0)
    }

    /// Waits until the status fulfils a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&ListenerStatus) -> bool) {
        let wait = async {
            while !condition(&self.status()) {
                tokio::task::yield_now().await;
            }
        };
        let waited = timeout(SOON, wait).await;
        assert!(waited.is_ok(), "{:?}", self.status());
    }
}

/// A virtual host that accepts all calls.
pub(crate) const ALL: &str =
    "{ name: all, domains: ['*'], routes: [{ match: { prefix: '' }, non_forwarding_action: {} }] }";

/// A virtual host that accepts the calls of one method of the echo.
pub(crate) fn only(method: &str) -> String {
    format!(
        "{{ name: one, domains: ['*'],
            routes: [{{ match: {{ path: /echo.Echo/{method} }}, non_forwarding_action: {{}} }}] }}"
    )
}

/// Encodes a resource.
pub(crate) fn resource(yaml: &str) -> Any {
    let path = Path::new("test.yaml");
    let read = decode(path, Format::Yaml, yaml.as_bytes(), &Options::default());
    let mut read = read.unwrap_or_else(|errors| panic!("{errors:?} in {yaml}"));
    read.remove(0).any
}

/// The listener resource of an address.
pub(crate) fn listener(address: SocketAddr, fields: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: 'server/{address}'
address: {{ socket_address: {{ address: '{ip}', port_value: {port} }} }}
{fields}
"
    )
}

/// A route configuration with these virtual hosts.
pub(crate) fn routes(name: &str, hosts: &str) -> String {
    format!(
        "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: {name}
virtual_hosts: [{hosts}]
"
    )
}

/// Route source of a connection manager: these virtual hosts.
pub(crate) fn inline(hosts: &str) -> String {
    format!("route_config: {{ name: inline, virtual_hosts: [{hosts}] }}")
}

/// Route source of a connection manager: a resource.
pub(crate) fn rds(name: &str) -> String {
    format!("rds: {{ route_config_name: {name}, config_source: {{ ads: {{}} }} }}")
}

/// A default filter chain with this route source.
pub(crate) fn default_chain(routes: &str) -> String {
    format!("default_filter_chain: {}", chain("{}", routes))
}

/// A filter chain with this match and this route source.
pub(crate) fn chain(matching: &str, routes: &str) -> String {
    chain_of(matching, routes, "", "")
}

/// A filter chain with this match and this route source, with HTTP filters before the router, and more fields.
pub(crate) fn chain_of(matching: &str, routes: &str, filters: &str, fields: &str) -> String {
    const MANAGER: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    const ROUTER: &str = "{ name: router, typed_config: { '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router } }";
    format!(
        "{{ filter_chain_match: {matching}, filters: [{{ name: http, typed_config: {{
              '@type': {MANAGER}, stat_prefix: s, {routes}, http_filters: [{filters} {ROUTER}] }} }}] {fields} }}"
    )
}
