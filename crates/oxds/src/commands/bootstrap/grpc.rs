//! The bootstrap file of gRPC (gRFC A27).

use super::{Address, Node, quoted};

/// The template names the listener of a gRPC *server* (gRFC A36); clients pass over it.
/// An empty locality says nothing, but grpc-js takes no node without one.
/// A server without `xds_v3` would be asked in v2 by clients from before 2022 (gRFC A30).
pub(super) fn file(server: &Address, node: &Node<'_>) -> String {
    let (id, cluster) = (quoted(node.id), quoted(node.cluster));
    let server = quoted(&server.to_string());
    format!(
        r#"{{
  "xds_servers": [
    {{
      "server_uri": {server},
      "channel_creds": [{{ "type": "insecure" }}],
      "server_features": ["xds_v3"]
    }}
  ],
  "server_listener_resource_name_template": "grpc/server?xds.resource.listening_address=%s",
  "node": {{ "id": {id}, "cluster": {cluster}, "locality": {{}} }}
}}
"#
    )
}
