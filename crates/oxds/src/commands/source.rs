//! Where `get` and `watch` take resources from: a control plane, asked as a client would.

use oxds_client::Bootstrap;
use oxds_client::bootstrap::TransportPolicy;
use oxds_types::ResourceType;

use super::control_plane::Address;
use super::secure::ClientSecurity;
use crate::exit::Failure;

/// Whom to ask, and who asks.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Asking {
    /// The node that is asked for: control planes may tell each something else
    #[arg(
        long,
        value_name = "ID",
        default_value = "oxds",
        conflicts_with = "bootstrap"
    )]
    node_id: String,
    /// The node's cluster
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        conflicts_with = "bootstrap"
    )]
    cluster: String,
    /// The version of the API to ask in; auto: v3 if the bootstrap says that the server knows it, else v2
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    transport: Transport,
    #[command(flatten)]
    address: Address,
}

/// A [`TransportPolicy`], by its name on the command line.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Transport {
    #[default]
    V3,
    V2,
    Auto,
}

impl Asking {
    /// Who asks, and whom: the first server.
    pub(crate) fn bootstrap(&self) -> Result<Bootstrap, Failure> {
        let bootstrap = self
            .address
            .bootstrap(|client| client.node_id(&self.node_id).cluster(&self.cluster))?;
        let policy = match self.transport {
            Transport::V3 => TransportPolicy::V3Only,
            Transport::V2 => TransportPolicy::V2Only,
            Transport::Auto => TransportPolicy::Auto,
        };
        Ok(bootstrap.with_transport(|_| policy))
    }

    /// How to connect.
    pub(crate) fn security(&self) -> &ClientSecurity {
        &self.address.security
    }

    /// Who asks, where it is not a control plane by gRPC that is asked.
    pub(crate) fn without_server(&self) -> Result<Bootstrap, Failure> {
        let bootstrap = Bootstrap::without_servers();
        let bootstrap = bootstrap.node_id(&self.node_id).cluster(&self.cluster);
        bootstrap.build().map_err(Failure::usage)
    }
}

/// Reads a kind as people say it: `cds`, `cluster`, `clusters`, or the full name of a message.
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
            format!("one of {}, or the full name of a message", names.join(", "))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_people_say_them() {
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
