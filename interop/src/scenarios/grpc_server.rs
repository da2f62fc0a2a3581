//! An xDS-enabled gRPC server, configured by `oxds serve` (gRFC A36).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{SETTLED, SOON, Scenario, only_at};
use crate::config::Folder;
use crate::peers::grpc::Grpc;
use crate::peers::grpc_server::GrpcServer;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::{Context, Fallible};

/// A serving server sends SETTINGS at once; this limit is for a busy machine.
const GREETING: Duration = Duration::from_secs(1);

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "grpc_core_server_follows_its_listener".to_owned();
    vec![Scenario::new(name, follows_its_listener)]
}

/// Effect of the server's routes on calls.
#[derive(Clone, Copy)]
enum Action {
    /// Handles them itself.
    Serve,
    /// Would forward them, which a server cannot: it fails them.
    Forward,
}

/// The listener with the name of the bootstrap's template, and the routes that it refers to.
fn resources(address: SocketAddr, action: Action) -> [String; 2] {
    let (ip, port) = (address.ip(), address.port());
    let action = match action {
        Action::Serve => "non_forwarding_action: {}",
        Action::Forward => "route: { cluster: elsewhere }",
    };
    let listener = format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: grpc/server?xds.resource.listening_address={address}
address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }}
filter_chains:
- name: all
  filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: ingress
      rds:
        route_config_name: server-routes
        config_source: {{ ads: {{}}, resource_api_version: V3 }}
      http_filters:
      - name: envoy.filters.http.router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"#
    );
    let routes = format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: server-routes
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
  - match: {{ prefix: "" }}
    {action}
"#
    );
    [listener, routes]
}

/// Given a server without a listener, so that it accepts no connection,
/// when its listener and routes come, then it serves;
/// when the routes change to an action that a server must not take, then it fails calls with the reason;
/// when they are fixed, it serves; and when the listener is deleted, it serves no new connection.
async fn follows_its_listener(cx: Context) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let mut server = GrpcServer::start(&cx, &file, "served").await?;
    let address = server.address;
    greets(&mut server, false).await?;

    folder.write("server.yaml", &resources(address, Action::Serve))?;
    greets(&mut server, true).await?;
    let load = Grpc::Core.call_target(&cx, &file, &format!("dns:///{address}"))?;
    let served = async || only_at(&load.calls, "calls", &["served"]).await;
    served().await?;

    folder.write("server.yaml", &resources(address, Action::Forward))?;
    load.calls
        .settle("calls refused", SETTLED, SOON, |counts| {
            let mut failures = counts.failures.iter();
            counts.by_backend.is_empty() && failures.all(|f| f.contains("unsupported action"))
        })
        .await?;

    folder.write("server.yaml", &resources(address, Action::Serve))?;
    served().await?;

    folder.remove("server.yaml")?;
    greets(&mut server, false).await
}

/// Waits until it serves new connections, or until it does not.
async fn greets(server: &mut GrpcServer, wanted: bool) -> Fallible {
    let what = if wanted {
        "the server greets connections"
    } else {
        "the server greets none"
    };
    until(what, SOON, async || {
        server.running()?;
        Ok((greeting(server.address).await == wanted).then_some(()))
    })
    .await
}

/// Whether a new connection gets its first byte, of HTTP/2 SETTINGS. Without a listener C-core accepts nothing; once it
/// had one, it leaves its socket to the kernel, which still connects.
async fn greeting(address: SocketAddr) -> bool {
    let greeted = async { TcpStream::connect(address).await?.read_u8().await };
    matches!(timeout(GREETING, greeted).await, Ok(Ok(_)))
}
