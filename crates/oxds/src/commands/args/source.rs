//! Options of `get` and `watch` that select a control plane and the node to connect as.

use oxds_client::Bootstrap;
use oxds_client::bootstrap::TransportPolicy;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::bootstrap_version::BootstrapVersion;
use super::client_security::ClientSecurity;
use super::control_plane::ControlPlaneArgs;
use crate::exit::Failure;

/// Options for the control plane, the node and the API version.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SourceArgs {
    /// Node id to connect as: control planes may send different resources to each node
    #[arg(
        long,
        value_name = "ID",
        default_value = "oxds",
        conflicts_with = "bootstrap"
    )]
    node_id: String,
    /// Cluster of the node
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        conflicts_with = "bootstrap"
    )]
    cluster: String,
    /// API version of the requests; auto: v3 if the bootstrap lists the server feature xds_v3, else v2. The default is
    /// the transport_api_version of the bootstrap, or v3
    #[arg(long, value_enum, value_name = "VERSION")]
    transport: Option<Transport>,
    #[command(flatten)]
    bootstrap_version: BootstrapVersion,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
}

/// A [`TransportPolicy`], by its name on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Transport {
    V3,
    V2,
    Auto,
}

impl SourceArgs {
    /// Returns the bootstrap with the node, the server and the API version.
    pub(crate) fn bootstrap(&self) -> Result<Bootstrap, Failure> {
        let bootstrap = self
            .control_plane
            .bootstrap(|client| client.node_id(&self.node_id).cluster(&self.cluster))?;
        let Some(transport) = self.transport else {
            self.bootstrap_version.check(&bootstrap)?;
            return Ok(bootstrap);
        };
        let policy = match transport {
            Transport::V3 => TransportPolicy::V3Only,
            Transport::V2 => TransportPolicy::V2Only,
            Transport::Auto => TransportPolicy::Auto,
        };
        Ok(bootstrap.with_transport(|_| policy))
    }

    /// Returns the options for the connection.
    pub(crate) fn security(&self) -> &ClientSecurity {
        &self.control_plane.security
    }

    /// Returns the node, for sources without a server: that of the bootstrap file, if there is one.
    pub(crate) fn node(&self) -> Result<Node, Failure> {
        Ok(self.bootstrap()?.node().clone())
    }

    /// Returns a bootstrap with only the node, for sources other than gRPC.
    pub(crate) fn without_server(&self) -> Result<Bootstrap, Failure> {
        let bootstrap = Bootstrap::without_servers();
        let bootstrap = bootstrap.node_id(&self.node_id).cluster(&self.cluster);
        bootstrap.build().map_err(Failure::usage)
    }
}

/// Parses a resource type: `cds`, `cluster`, `clusters`, or the full name of a message.
pub(crate) fn resource_type(text: &str) -> Result<ResourceType, String> {
    if let Some(resource_type) = ResourceType::from_short_name(text) {
        return Ok(resource_type);
    }
    if let Some((resource_type, _)) = ResourceType::from_type_url(text) {
        return Ok(resource_type);
    }
    if text.contains('.') {
        return Ok(ResourceType::from_message(text).0);
    }
    let message = |resource_type: &ResourceType| {
        resource_type
            .message()
            .rsplit('.')
            .next()
            .map(str::to_lowercase)
    };
    let wanted = text.to_lowercase();
    let singular = wanted.strip_suffix('s').unwrap_or(&wanted);
    let mut known = ResourceType::known();
    known
        .find(|resource_type| {
            message(resource_type).is_some_and(|name| name == wanted || name == singular)
        })
        .ok_or_else(|| {
            let names: Vec<_> = ResourceType::known()
                .filter_map(|resource_type| resource_type.short_name())
                .collect();
            format!(
                "expected one of {}, or the full name of a message",
                names.join(", ")
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_type_accepts_short_and_message_names() {
        for text in [
            "cds",
            "CDS",
            "cluster",
            "Clusters",
            "envoy.config.cluster.v3.Cluster",
            "type.googleapis.com/envoy.api.v2.Cluster",
        ] {
            assert_eq!(resource_type(text), Ok(ResourceType::CLUSTER), "{text}");
        }
        assert_eq!(
            resource_type("shop.v1.Price").unwrap().message(),
            "shop.v1.Price"
        );
        assert!(resource_type("clutser").unwrap_err().contains("cds, eds"));
    }
}
