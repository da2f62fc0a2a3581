//! Envoy's `layered_runtime`, in a bootstrap file or alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use envoy_types::pb::envoy::config::core::v3::ConfigSource;
use prost_reflect::{DeserializeOptions, DynamicMessage};
use serde::Deserialize;

use super::disk::{Disk, DiskError, Values};
use super::layer::{Layer, Source};
use super::static_cluster::{self, Addresses};
use crate::{descriptor, file};

/// Bytes of the file.
const MAX_FILE: usize = 64 << 20;
const CONFIG_SOURCE: &str = "envoy.config.core.v3.ConfigSource";

/// The layers of a configuration; later ones win.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Layered {
    /// Layers in their order.
    pub layers: Vec<LayerConfig>,
    clusters: Addresses,
}

/// Configuration of a layer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LayerConfig {
    /// Values in the configuration itself.
    Static(Layer),
    /// Values on disk.
    Disk {
        /// Name of the layer.
        name: String,
        /// Place of the values.
        disk: Disk,
    },
    /// Values that requests to the admin endpoint set.
    Admin {
        /// Name of the layer.
        name: String,
    },
    /// Values that a control plane sends.
    Rtds {
        /// Name of the layer.
        name: String,
        /// Name of the resource.
        resource: String,
        /// The control plane; boxed for its size.
        source: Box<ConfigSource>,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    node: Option<NodeFields>,
    #[serde(alias = "layeredRuntime")]
    layered_runtime: Option<Layers>,
    layers: Option<Vec<LayerFields>>,
    #[serde(default, alias = "staticResources")]
    static_resources: serde_json::Value,
}

#[derive(Deserialize)]
struct NodeFields {
    #[serde(default)]
    cluster: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    #[serde(default)]
    layers: Vec<LayerFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerFields {
    name: String,
    #[serde(alias = "staticLayer")]
    static_layer: Option<Values>,
    #[serde(alias = "diskLayer")]
    disk_layer: Option<DiskFields>,
    #[serde(alias = "adminLayer")]
    admin_layer: Option<NoFields>,
    #[serde(alias = "rtdsLayer")]
    rtds_layer: Option<RtdsFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskFields {
    #[serde(default, alias = "symlinkRoot")]
    symlink_root: PathBuf,
    #[serde(default)]
    subdirectory: PathBuf,
    #[serde(default, alias = "appendServiceCluster")]
    append_service_cluster: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RtdsFields {
    #[serde(default)]
    name: String,
    #[serde(alias = "rtdsConfig")]
    rtds_config: serde_json::Value,
}

impl Layered {
    /// Reads a YAML or JSON file: an Envoy bootstrap with `layered_runtime`, of which other fields are ignored, or the
    /// content of `layered_runtime` alone (`layers`).
    ///
    /// # Errors
    /// The file cannot be read, has no layers, or a layer is invalid. An unknown sort of layer is reported with the
    /// known ones.
    pub fn read(path: &Path) -> Result<Self, DiskError> {
        let bytes = file::read(path, MAX_FILE).map_err(|error| DiskError::new(path, error))?;
        let file: File = oxds_settings::read(&bytes).map_err(|error| DiskError {
            path: path.to_owned(),
            position: error.position,
            reason: error.reason,
        })?;
        let cluster = file.node.map(|node| node.cluster).unwrap_or_default();
        let layers = file.layered_runtime.map(|layered| layered.layers);
        let Some(layers) = layers.or(file.layers) else {
            let reason = "no layers: expected layered_runtime or layers";
            return Err(DiskError::new(path, reason));
        };
        let mut names = BTreeSet::new();
        let mut layered = Self {
            clusters: static_cluster::addresses(&file.static_resources),
            ..Self::default()
        };
        for layer in layers {
            let name = layer.name.clone();
            let invalid =
                |reason: String| DiskError::new(path, format!("layer {name:?}: {reason}"));
            if !names.insert(name.clone()) {
                return Err(invalid(
                    "second layer of this name: expected unique names".to_owned(),
                ));
            }
            layered
                .layers
                .push(layer.config(&cluster).map_err(invalid)?);
        }
        let admins = layered.layers.iter();
        let admins = admins.filter(|layer| matches!(layer, LayerConfig::Admin { .. }));
        if admins.count() > 1 {
            let reason = "more than one admin_layer: expected at most one";
            return Err(DiskError::new(path, reason));
        }
        Ok(layered)
    }

    /// Returns the static clusters of the bootstrap by name: the address of its only endpoint, `HOST:PORT`, or the
    /// reason why a cluster has none that can be used without TLS.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, Result<&str, &str>)> {
        let clusters = self.clusters.iter();
        clusters.map(|(name, address)| {
            let address = address.as_deref().map_err(String::as_str);
            (&**name, address)
        })
    }
}

impl LayerFields {
    /// Returns the configuration. The error is a reason without the name of the layer.
    fn config(self, cluster: &str) -> Result<LayerConfig, String> {
        let Self {
            name,
            static_layer,
            disk_layer,
            admin_layer,
            rtds_layer,
        } = self;
        if name.is_empty() {
            return Err("empty name: expected a unique name".to_owned());
        }
        match (static_layer, disk_layer, admin_layer, rtds_layer) {
            (Some(Values(values)), None, None, None) => {
                let layer = Layer::new(name, Source::Static).with_struct(&values);
                layer
                    .map(LayerConfig::Static)
                    .map_err(|error| format!("static_layer: {error}"))
            }
            (None, Some(disk), None, None) => disk
                .disk(cluster)
                .map(|disk| LayerConfig::Disk { name, disk }),
            (None, None, Some(NoFields {}), None) => Ok(LayerConfig::Admin { name }),
            (None, None, None, Some(rtds)) => {
                let source = config_source(&rtds.rtds_config)
                    .map_err(|reason| format!("rtds_layer.rtds_config: {reason}"))?;
                let source = Box::new(source);
                let resource = match &*rtds.name {
                    "" => name.clone(),
                    resource => resource.to_owned(),
                };
                Ok(LayerConfig::Rtds {
                    name,
                    resource,
                    source,
                })
            }
            _ => Err(
                "expected exactly one of static_layer, disk_layer, admin_layer, rtds_layer"
                    .to_owned(),
            ),
        }
    }
}

impl DiskFields {
    fn disk(self, cluster: &str) -> Result<Disk, String> {
        if self.symlink_root.as_os_str().is_empty() {
            return Err("disk_layer.symlink_root: not set: expected a folder".to_owned());
        }
        let path = if self.subdirectory.as_os_str().is_empty() {
            self.symlink_root
        } else {
            self.symlink_root.join(self.subdirectory)
        };
        match (self.append_service_cluster, cluster) {
            // Envoy: a missing folder is an empty layer.
            (false, _) => Ok(Disk::new(path).optional()),
            (true, "") => Err(
                "disk_layer.append_service_cluster: node.cluster is not set: expected a name"
                    .to_owned(),
            ),
            (true, cluster) => Ok(Disk::new(path.join(cluster)).optional()),
        }
    }
}

fn config_source(json: &serde_json::Value) -> Result<ConfigSource, String> {
    let descriptor = descriptor::pool().get_message_by_name(CONFIG_SOURCE);
    let descriptor = descriptor.ok_or_else(|| CONFIG_SOURCE.to_owned())?;
    let options = DeserializeOptions::new();
    let message = DynamicMessage::deserialize_with_options(descriptor, json, &options);
    let message = message.map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}
