//! The bootstrap file of Envoy: all resources over one ADS stream.

use super::address::{Host, HostPort};
use super::node::{NodeIdentity, quoted};

/// Returns the YAML file.
pub(super) fn file(server: &HostPort, node: &NodeIdentity<'_>, delta: bool) -> String {
    let (api_type, variant) = if delta {
        ("DELTA_GRPC", "delta")
    } else {
        ("GRPC", "SotW")
    };
    let discovery = match server.host {
        Host::Ip(_) => "STATIC",
        Host::Name(_) => "STRICT_DNS",
    };
    let (id, cluster) = (quoted(node.id), quoted(node.cluster));
    let (host, port) = (quoted(&server.host.to_string()), server.port);
    format!(
        r#"# Identity of this Envoy for the control plane.
node:
  id: {id}
  cluster: {cluster}

# Statistics and the configuration as Envoy applied it; only for this machine.
admin:
  address:
    socket_address: {{ address: 127.0.0.1, port_value: 9901 }}

# Listeners, clusters and the resources that they refer to come over one ADS stream, as {variant}.
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
          # Pings detect a control plane that disappeared without closing its connection.
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
