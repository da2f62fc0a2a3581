//! Listeners of xDS-enabled servers (gRFC A36), and the TLS contexts of both sides (gRFC A29).

use std::net::SocketAddr;

use crate::certificates::Tls;

/// Certificate provider instance of the bootstraps that `oxds bootstrap grpc --certs` prints.
const PROVIDER: &str = "default";

/// The filter chain of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain<'a> {
    /// Name of the route configuration. Without one, all methods are served.
    pub(crate) routes: Option<&'a str>,
    /// HTTP filters before the router, as flow mappings.
    pub(crate) filters: &'a [String],
    /// TLS of the connections; plaintext without it.
    pub(crate) tls: Option<Tls>,
}

/// The listener of a server, with the name of the bootstrap's template.
pub(crate) fn listener(address: SocketAddr, chain: Chain<'_>) -> String {
    let (ip, port) = (address.ip(), address.port());
    let routes = match chain.routes {
        Some(name) => format!(
            "rds: {{ route_config_name: {name}, config_source: {{ ads: {{}}, resource_api_version: V3 }} }}"
        ),
        None => "route_config: { name: all, virtual_hosts: [{ name: all, domains: [\"*\"], routes: [{ match: { prefix: \"\" }, non_forwarding_action: {} }] }] }".to_owned(),
    };
    let filters = chain.filters.iter();
    let filters: String = filters
        .map(|filter| format!("      - {filter}\n"))
        .collect();
    let tls = chain.tls.map(downstream_tls).unwrap_or_default();
    format!(
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
      {routes}
      http_filters:
{filters}      - name: envoy.filters.http.router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{tls}"#
    )
}

/// Type URL of the RBAC filter.
pub(crate) const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

/// An RBAC filter with these rules, which are a flow mapping without its braces.
pub(crate) fn rbac_filter(name: &str, rules: &str) -> String {
    format!("{{ name: {name}, typed_config: {{ \"@type\": {RBAC}, rules: {{ {rules} }} }} }}")
}

/// Transport socket of a filter chain. Clients must show a certificate if both sides do.
fn downstream_tls(tls: Tls) -> String {
    let clients = match tls {
        Tls::Server => String::new(),
        Tls::Mutual => format!(
            "\n        validation_context: {{ ca_certificate_provider_instance: {{ instance_name: {PROVIDER} }} }}"
        ),
    };
    format!(
        r#"  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
      require_client_certificate: {}
      common_tls_context:
        tls_certificate_provider_instance: {{ instance_name: {PROVIDER} }}{clients}
"#,
        tls == Tls::Mutual
    )
}

/// Transport socket of a gRPC client's cluster, as one of its fields: endpoints must have this URI. The client shows a
/// certificate if both sides do.
///
/// The matcher has both forms: gRPC in other languages reads only the deprecated one.
pub(crate) fn upstream_tls(tls: Tls, name: &str) -> String {
    let own = match tls {
        Tls::Server => String::new(),
        Tls::Mutual => {
            format!("\n      tls_certificate_provider_instance: {{ instance_name: {PROVIDER} }}")
        }
    };
    format!(
        r#"transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:{own}
      validation_context:
        ca_certificate_provider_instance: {{ instance_name: {PROVIDER} }}
        match_subject_alt_names: [{{ exact: "{name}" }}]
        match_typed_subject_alt_names: [{{ san_type: URI, matcher: {{ exact: "{name}" }} }}]
"#
    )
}
