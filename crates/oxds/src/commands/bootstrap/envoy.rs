//! The bootstrap file of Envoy: everything over one ADS stream.

use super::address::Host;
use super::{Address, Node, quoted};

pub(super) fn file(server: &Address, node: &Node<'_>, delta: bool) -> String {
    let (api_type, meaning) = if delta {
        ("DELTA_GRPC", "differences")
    } else {
        ("GRPC", "full states")
    };
    let discovery = match server.host {
        Host::Ip(_) => "STATIC",
        Host::Name(_) => "STRICT_DNS",
    };
    let (id, cluster) = (quoted(node.id), quoted(node.cluster));
    let (host, port) = (quoted(&server.host.to_string()), server.port);
    format!(
        r#"# Who this Envoy is: the control plane tells clients apart by it.
node:
  id: {id}
  cluster: {cluster}

# Statistics and the configuration as Envoy sees it; reachable from this machine only.
admin:
  address:
    socket_address: {{ address: 127.0.0.1, port_value: 9901 }}

# Listeners and clusters, and what they lead to, come over one stream (ADS), as {meaning}.
dynamic_resources:
  ads_config:
    api_type: {api_type}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc: {{ cluster_name: xds }}
  cds_config: {{ ads: {{}}, resource_api_version: V3 }}
  lds_config: {{ ads: {{}}, resource_api_version: V3 }}

# The control plane itself.
static_resources:
  clusters:
  - name: xds
    type: {discovery}
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config:
          # The pings notice a control plane that vanished without closing its connection.
          http2_protocol_options:
            connection_keepalive: {{ interval: 30s, timeout: 5s }}
    load_assignment:
      cluster_name: xds
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: {{ address: {host}, port_value: {port} }}
"#
    )
}
