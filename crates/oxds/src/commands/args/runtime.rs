//! Options of `oxds serve` for its own runtime: layers, and where they come from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, ConfigSource};
use oxds_client::source::{Clusters, SourceError};
use oxds_client::{Bootstrap, Options, Protocol, Source, XdsClient};
use oxds_server::Builder;
use oxds_types::runtime::{Disk, Layer, LayerConfig, Layered, Runtime, Snapshot, Source as Origin};

use super::control_plane::host_and_port;
use super::runtime_keys::RuntimeKeys;
use crate::commands::bootstrap::check;
use crate::exit::Failure;

/// Options for runtime keys. Layers, from the first to the one that wins: the environment, --runtime-config,
/// --runtime-path, --runtime-rtds, --runtime-admin, --runtime (V-47).
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runtime")]
pub(crate) struct RuntimeArgs {
    #[command(flatten)]
    keys: RuntimeKeys,
    /// Read runtime keys from a YAML or JSON file, or from a folder in Envoy's layout, and follow its changes.
    /// Repeatable, later ones win
    #[arg(long = "runtime-path", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Read runtime layers from an Envoy bootstrap (layered_runtime), or from a file with `layers`
    #[arg(long = "runtime-config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Follow this runtime resource over RTDS. Repeatable, later ones win
    #[arg(long = "runtime-rtds", value_name = "NAME")]
    rtds: Vec<String>,
    /// Control plane of the runtime resources, without TLS
    #[arg(long = "runtime-server", value_name = "HOST:PORT", value_parser = host_and_port, conflicts_with = "bootstrap")]
    server: Option<String>,
    /// gRPC bootstrap file with the control planes of the runtime resources
    #[arg(long = "runtime-bootstrap", value_name = "FILE")]
    bootstrap: Option<PathBuf>,
    /// Let requests from this machine change runtime keys: POST /runtime_modify?KEY=VALUE on the HTTP port
    #[arg(long = "runtime-admin")]
    admin: bool,
}

/// Name of the RTDS client among the readers of keys.
const READER: &str = "rtds client";

/// A runtime and the parts that keep it current.
#[derive(Debug, Default)]
pub(crate) struct OpenedRuntime {
    pub(crate) runtime: Runtime,
    disks: Vec<(String, Disk)>,
    rtds: Vec<RtdsLayer>,
    /// Whether the options name control planes for RTDS.
    has_servers: bool,
    /// These control planes.
    bootstrap: Option<Bootstrap>,
}

#[derive(Debug)]
struct RtdsLayer {
    name: String,
    resource: String,
    source: Source,
}

impl RuntimeArgs {
    /// Reads all layers for the first time. An invalid one is an error here, because there are no last values.
    pub(crate) fn open(self, node_id: &str) -> Result<OpenedRuntime, Failure> {
        let mut opened = OpenedRuntime {
            has_servers: self.server.is_some() || self.bootstrap.is_some(),
            ..OpenedRuntime::default()
        };
        let control_planes = (self.server, self.bootstrap);
        let mut layers = vec![Layer::environment(std::env::vars_os())];
        if let Some(file) = &self.config {
            let layered = Layered::read(file).map_err(Failure::usage)?;
            let clusters = StaticClusters::of(&layered)?;
            for layer in layered.layers {
                layers.push(opened.configured(layer, &clusters)?);
            }
        }
        for path in self.paths {
            let name = path.display().to_string();
            layers.push(opened.disk(name, Disk::new(path))?);
        }
        for name in self.rtds {
            layers.push(opened.rtds(name.clone(), name, Source::ads())?);
        }
        let has_admin = layers.iter().any(|layer| *layer.source() == Origin::Admin);
        if self.admin && !has_admin {
            layers.push(Layer::new("admin", Origin::Admin));
        }
        layers.push(self.keys.layer()?);
        let twice = |name: String| {
            Failure::usage(format_args!(
                "two runtime layers have the name {name:?}: expected unique names"
            ))
        };
        opened.runtime = Runtime::new(layers).map_err(twice)?;
        let runtime = opened.runtime.reader(READER);
        opened.bootstrap = bootstrap(control_planes, node_id, &runtime)?;
        Ok(opened)
    }
}

/// Returns the control planes for RTDS: an address, or those of a file.
fn bootstrap(
    (server, file): (Option<String>, Option<PathBuf>),
    node_id: &str,
    runtime: &Snapshot,
) -> Result<Option<Bootstrap>, Failure> {
    if let Some(file) = file {
        return check::read_in(&file, runtime).map(Some);
    }
    let Some(server) = server else {
        return Ok(None);
    };
    let bootstrap = Bootstrap::builder(server).node_id(node_id).build();
    bootstrap.map(Some).map_err(Failure::usage)
}

impl OpenedRuntime {
    fn configured(
        &mut self,
        layer: LayerConfig,
        clusters: &StaticClusters,
    ) -> Result<Layer, Failure> {
        match layer {
            LayerConfig::Static(layer) => Ok(layer),
            LayerConfig::Admin { name } => Ok(Layer::new(name, Origin::Admin)),
            LayerConfig::Disk { name, disk } => self.disk(name, disk),
            LayerConfig::Rtds {
                name,
                resource,
                source,
            } => {
                check_major(&name, &source)?;
                let source = Source::from_config(&source, &clusters.usable);
                let source = source.map_err(|error| {
                    let error = clusters.explain(&error);
                    Failure::usage(format_args!(
                        "runtime layer {name:?}: rtds_layer.rtds_config: {error}"
                    ))
                })?;
                self.rtds(name, resource, source)
            }
            layer => Err(Failure::usage(format_args!(
                "unsupported runtime layer: {layer:?}"
            ))),
        }
    }

    fn disk(&mut self, name: String, disk: Disk) -> Result<Layer, Failure> {
        let (layer, _) = disk.read(&name).map_err(Failure::usage)?;
        self.disks.push((name, disk));
        Ok(layer)
    }

    fn rtds(&mut self, name: String, resource: String, source: Source) -> Result<Layer, Failure> {
        if source == Source::ads() && !self.has_servers {
            return Err(Failure::usage(format_args!(
                "runtime layer {name:?}: no control plane: expected --runtime-server or --runtime-bootstrap"
            )));
        }
        let layer = Layer::new(&*name, Origin::Rtds(resource.clone()));
        self.rtds.push(RtdsLayer {
            name,
            resource,
            source,
        });
        Ok(layer)
    }

    /// Hands the runtime to a server, which follows the layers on disk.
    pub(crate) fn serve(&self, builder: Builder) -> Result<Builder, Failure> {
        let mut builder = builder.runtime(self.runtime.clone());
        for (name, disk) in &self.disks {
            let followed = builder.runtime_disk(name, disk.clone());
            builder = followed.map_err(Failure::usage)?;
        }
        Ok(builder)
    }

    /// Starts to follow the layers that control planes send.
    pub(crate) fn follow(self) -> Result<(), Failure> {
        if self.rtds.is_empty() {
            return Ok(());
        }
        let without = || Bootstrap::without_servers().build();
        let bootstrap = match self.bootstrap {
            Some(bootstrap) => bootstrap,
            None => without().map_err(Failure::usage)?,
        };
        // By delta, a server reports that a resource was deleted; by SotW it cannot.
        let options =
            Options::in_runtime(&self.runtime.reader(READER)).with_protocol(Protocol::Delta);
        let client = XdsClient::with_options(Arc::new(bootstrap), options);
        for layer in &self.rtds {
            let RtdsLayer {
                name,
                resource,
                source,
            } = layer;
            let followed = client.follow_runtime(source, &self.runtime, name, resource);
            tokio::spawn(followed.map_err(Failure::usage)?);
        }
        Ok(())
    }
}

/// The static clusters of an Envoy bootstrap, which `envoy_grpc` names.
struct StaticClusters {
    usable: Clusters,
    /// Reasons why the others cannot be used, by name.
    others: BTreeMap<String, String>,
}

impl StaticClusters {
    fn of(layered: &Layered) -> Result<Self, Failure> {
        let (mut usable, mut others) = (Clusters::default(), BTreeMap::new());
        for (name, address) in layered.clusters() {
            match address {
                Ok(address) => usable = usable.at(name, address).map_err(Failure::usage)?,
                Err(reason) => drop(others.insert(name.to_owned(), reason.to_owned())),
            }
        }
        Ok(Self { usable, others })
    }

    /// Returns the text of an error. For a cluster it says what the bootstrap has.
    fn explain(&self, error: &SourceError) -> String {
        let SourceError::UnknownCluster { field, cluster } = error else {
            return error.to_string();
        };
        let reason = match self.others.get(cluster) {
            Some(reason) => reason,
            None => "not found: expected one of static_resources.clusters",
        };
        format!("{field}: cluster {cluster:?} {reason}, or `ads: {{}}` with --runtime-bootstrap")
    }
}

/// Refuses a source in the previous major, as Envoy does at its start (V-48). The servers of a gRPC bootstrap can be
/// asked in it.
fn check_major(layer: &str, source: &ConfigSource) -> Result<(), Failure> {
    let transport = match &source.config_source_specifier {
        Some(ConfigSourceSpecifier::ApiConfigSource(api)) => api.transport_api_version,
        _ => ApiVersion::V3.into(),
    };
    #[allow(deprecated, reason = "the value that is refused")]
    let previous = i32::from(ApiVersion::V2);
    for (field, major) in [
        ("resource_api_version", source.resource_api_version),
        ("api_config_source.transport_api_version", transport),
    ] {
        if major == previous {
            let error = Failure::usage(format_args!(
                "runtime layer {layer:?}: rtds_layer.rtds_config.{field}: v2 is the previous major: expected V3"
            ));
            return Err(error.hint(
                "name the server in --runtime-bootstrap with transport_api_version V2, and use `ads: {}` here",
            ));
        }
    }
    Ok(())
}
