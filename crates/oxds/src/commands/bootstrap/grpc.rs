//! The bootstrap file of gRPC (gRFC A27).

use super::{Address, Node, quoted};

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
  "node": {{ "id": {id}, "cluster": {cluster} }}
}}
"#
    )
}
