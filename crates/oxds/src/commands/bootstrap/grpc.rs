//! The bootstrap file of gRPC (gRFC A27).

use super::address::HostPort;
use super::certificates::CertificateFiles;
use super::node::{NodeIdentity, quoted};

/// Returns the JSON file.
///
/// - The template names the listener of a gRPC *server* (gRFC A36); clients ignore it.
/// - The empty locality is for grpc-js, which rejects a node without one.
/// - Without `xds_v3`, clients from before 2022 would use the v2 transport (gRFC A30).
/// - Only `XdsCredentials` use the certificates, and only for clusters and listeners with a TLS context (gRFC A29).
pub(super) fn file(
    server: &HostPort,
    node: &NodeIdentity<'_>,
    certificates: Option<&CertificateFiles>,
) -> String {
    let (id, cluster) = (quoted(node.id), quoted(node.cluster));
    let server = quoted(&server.to_string());
    let certificates = certificates.map(CertificateFiles::field);
    let certificates = certificates.unwrap_or_default();
    format!(
        r#"{{
  "xds_servers": [
    {{
      "server_uri": {server},
      "channel_creds": [{{ "type": "insecure" }}],
      "server_features": ["xds_v3"]
    }}
  ],
{certificates}  "server_listener_resource_name_template": "grpc/server?xds.resource.listening_address=%s",
  "node": {{ "id": {id}, "cluster": {cluster}, "locality": {{}} }}
}}
"#
    )
}
