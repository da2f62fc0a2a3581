//! Where `get` and `watch` take resources from: a control plane, asked as a client would.

use std::path::PathBuf;

use oxds_client::Bootstrap;
use oxds_client::bootstrap::TransportPolicy;
use oxds_types::discovery::Node;
use oxds_types::{ApiVersion, Kind};

use super::bootstrap::check;
use super::control_plane::Address;
use crate::exit::Failure;

/// Whom to ask, and who asks.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Asking {
    #[command(flatten)]
    address: Address,
    /// A gRPC bootstrap, to ask its first server as the client that it is for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "node_id", "cluster"])]
    bootstrap: Option<PathBuf>,
    /// The node that is asked for: control planes may tell each something else
    #[arg(long, value_name = "ID", default_value = "oxds")]
    node_id: String,
    /// The node's cluster
    #[arg(long, value_name = "NAME", default_value = "")]
    cluster: String,
    /// The version of the API to ask in; auto: v3 if the bootstrap says that the server knows it, else v2
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    transport: Transport,
}

/// A [`TransportPolicy`], by its name on the command line.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Transport {
    #[default]
    V3,
    V2,
    Auto,
}

/// A control plane, and the client that asks it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// `HOST:PORT`.
    pub(crate) address: String,
    pub(crate) node: Node,
    /// The version of the API that it is asked in.
    pub(crate) version: ApiVersion,
}

impl Asking {
    pub(crate) fn source(&self) -> Result<Source, Failure> {
        let bootstrap = match &self.bootstrap {
            Some(file) => check::read(file)?,
            None => Bootstrap::builder(&self.address.server)
                .node_id(&self.node_id)
                .cluster(&self.cluster)
                .build()
                .map_err(Failure::usage)?,
        };
        let policy = match self.transport {
            Transport::V3 => TransportPolicy::V3Only,
            Transport::V2 => TransportPolicy::V2Only,
            Transport::Auto => TransportPolicy::Auto,
        };
        of_bootstrap(&bootstrap.with_transport(|_| policy))
    }

    /// Who asks, where it is not a control plane by gRPC that is asked.
    pub(crate) fn without_server(&self) -> Result<Bootstrap, Failure> {
        let bootstrap = Bootstrap::without_servers();
        let bootstrap = bootstrap.node_id(&self.node_id).cluster(&self.cluster);
        bootstrap.build().map_err(Failure::usage)
    }
}

fn of_bootstrap(bootstrap: &Bootstrap) -> Result<Source, Failure> {
    let server = bootstrap.servers().first();
    let server = server.ok_or_else(|| Failure::usage("the bootstrap names no server"))?;
    if server.credentials.is_private() {
        let (uri, credentials) = (&server.uri, server.credentials.type_name());
        return Err(Failure::usage(format_args!(
            "{uri}: asked in plaintext only, not by `{credentials}`"
        )));
    }
    Ok(Source {
        address: server.address.authority().to_owned(),
        node: bootstrap.node().clone(),
        version: server.version(),
    })
}

/// Reads a kind as people say it: `cds`, `cluster`, `clusters`, or the full name of a message.
pub(crate) fn kind(text: &str) -> Result<Kind, String> {
    if let Some(kind) = Kind::from_short_name(text) {
        return Ok(kind);
    }
    if let Some((kind, _)) = Kind::from_type_url(text) {
        return Ok(kind);
    }
    if text.contains('.') {
        return Ok(Kind::from_message(text).0);
    }
    let message = |kind: &Kind| kind.message().rsplit('.').next().map(str::to_lowercase);
    let wanted = text.to_lowercase();
    let singular = wanted.strip_suffix('s').unwrap_or(&wanted);
    let mut known = Kind::known();
    known
        .find(|kind| message(kind).is_some_and(|name| name == wanted || name == singular))
        .ok_or_else(|| {
            let names: Vec<_> = Kind::known().filter_map(|kind| kind.short_name()).collect();
            format!("one of {}, or the full name of a message", names.join(", "))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_people_say_them() {
        for text in [
            "cds",
            "CDS",
            "cluster",
            "Clusters",
            "envoy.config.cluster.v3.Cluster",
            "type.googleapis.com/envoy.api.v2.Cluster",
        ] {
            assert_eq!(kind(text), Ok(Kind::CLUSTER), "{text}");
        }
        assert_eq!(kind("shop.v1.Price").unwrap().message(), "shop.v1.Price");
        assert!(kind("clutser").unwrap_err().contains("cds, eds"));
    }
}
