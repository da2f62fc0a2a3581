//! The measured servers.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::net::SocketAddr;
use std::path::Path;

use oxds_client::Bootstrap;
use oxds_grpc_server::XdsServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use super::echo::Echo;
use crate::keys;
use crate::roles::SecuredServer;
use crate::rpc::variant::bootstrap;
use crate::serve::{ANY_PORT, obey};

/// Name of the listener.
const LISTENER: &str = "bench-server";

/// Serves until standard input closes.
pub(crate) async fn serve(
    server: SecuredServer,
    control_plane: &str,
    keys: &Path,
) -> Result<(), String> {
    match server {
        SecuredServer::Oxds => oxds(control_plane, keys).await,
        SecuredServer::Tonic => tonic(keys).await,
    }
}

async fn oxds(control_plane: &str, keys: &Path) -> Result<(), String> {
    let mut bootstrap: serde_json::Value =
        serde_json::from_str(&bootstrap(control_plane)).map_err(|error| error.to_string())?;
    bootstrap["certificate_providers"] = keys::providers(keys, "server");
    bootstrap["server_listener_resource_name_template"] = LISTENER.into();
    let bootstrap = Bootstrap::from_json(&bootstrap.to_string());
    let server = XdsServer::builder()
        .bootstrap(bootstrap.map_err(|error| error.to_string())?)
        .add_service(Echo)
        .build()
        .map_err(|error| error.to_string())?;
    let bound = server.bind(ANY_PORT).map_err(|error| error.to_string())?;
    println!("{}", bound.local_addr());
    tokio::select! {
        () = bound.serve() => Err("the server has ended".to_owned()),
        () = obey(|_| None) => Ok(()),
    }
}

async fn tonic(keys: &Path) -> Result<(), String> {
    let listener = TcpListener::bind(ANY_PORT).await;
    let listener = listener.map_err(|error| error.to_string())?;
    println!(
        "{}",
        listener.local_addr().map_err(|error| error.to_string())?
    );
    let mut server = Server::builder()
        .tls_config(keys::tonic_server(keys)?)
        .map_err(|error| error.to_string())?;
    // Accepted sockets have no delay, as XdsServer's and grpc-go's.
    let accepted = TcpListenerStream::new(listener);
    let accepted = tokio_stream::StreamExt::map(accepted, |socket| {
        socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket))
    });
    let serving = server.add_service(Echo).serve_with_incoming(accepted);
    tokio::select! {
        served = serving => served.map_err(|error| error.to_string()),
        () = obey(|_| None) => Ok(()),
    }
}

/// The listener of our server at this address.
pub(super) fn listener(address: SocketAddr) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {LISTENER}
address: {{ socket_address: {{ address: {}, port_value: {} }} }}
filter_chains:
- filters:
  - name: http
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: bench
      route_config:
        name: bench
        virtual_hosts:
        - name: bench
          domains: [ "*" ]
          routes: [ {{ match: {{ prefix: "" }}, non_forwarding_action: {{}} }} ]
      http_filters:
      - name: router
        typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
      require_client_certificate: true
      common_tls_context:
        tls_certificate_provider_instance: {{ instance_name: keys }}
        validation_context: {{ ca_certificate_provider_instance: {{ instance_name: keys }} }}
"#,
        address.ip(),
        address.port()
    )
}
