//! Cluster specifier plugins of a route configuration: the configurations that routes name in place of a cluster.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::route::v3::ClusterSpecifierPlugin;

use super::Invalid;
use super::convert::message;
use super::invalid::Within;

/// Plugins that a route configuration defines. None is supported, so all of them are optional.
#[derive(Debug, Default)]
pub(super) struct Plugins<'a> {
    optional: BTreeSet<&'a str>,
}

impl<'a> Plugins<'a> {
    /// Reads the definitions. As in gRPC, a plugin of an unknown type is invalid unless it is optional.
    pub(super) fn from_protos(protos: &'a [ClusterSpecifierPlugin]) -> Result<Self, Invalid> {
        let mut plugins = Self::default();
        for (index, proto) in protos.iter().enumerate() {
            plugins
                .define(proto)
                .within_index("cluster_specifier_plugins", index)?;
        }
        Ok(plugins)
    }

    fn define(&mut self, proto: &'a ClusterSpecifierPlugin) -> Result<(), Invalid> {
        let extension = proto.extension.as_ref();
        let extension = extension.ok_or_else(|| Invalid::new("must be set").at("extension"))?;
        if extension.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("extension.name"));
        }
        let Some(config) = &extension.typed_config else {
            return Err(Invalid::new("must be set").at("extension.typed_config"));
        };
        if !proto.is_optional {
            let rule = format!("{:?} is not supported", message(config));
            return Err(Invalid::new(rule).at("extension.typed_config"));
        }
        if !self.optional.insert(&extension.name) {
            let rule = format!("{:?} is defined twice", extension.name);
            return Err(Invalid::new(rule).at("extension.name"));
        }
        Ok(())
    }

    /// Checks that a plugin is defined, which a route names. The route is ignored then, because the plugin is optional.
    pub(super) fn check_use(&self, name: &str) -> Result<(), Invalid> {
        if self.optional.contains(name) {
            Ok(())
        } else {
            let rule = format!("{name:?} is not in cluster_specifier_plugins");
            Err(Invalid::new(rule).at("cluster_specifier_plugin"))
        }
    }
}
