//! Rules for filter configurations of virtual hosts, routes and weighted clusters: `typed_per_filter_config` (gRFC A39).

use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::Invalid;
use super::convert::message;
use super::invalid::Within;

const FIELD: &str = "typed_per_filter_config";
const FILTER_CONFIG: &str = "envoy.config.route.v3.FilterConfig";

/// Whether filter configurations are read: HTTP filters are a feature of v3 listeners (C-59).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterOverrides {
    Check,
    Ignore,
}

impl FilterOverrides {
    /// Checks the configurations of filters, by name of the filter.
    pub(super) fn check(self, configs: &HashMap<String, Any>) -> Result<(), Invalid> {
        if self == Self::Ignore {
            return Ok(());
        }
        // In order, so that the error does not depend on the order of a hash map.
        for (name, config) in configs.iter().collect::<BTreeMap<_, _>>() {
            if name.is_empty() {
                return Err(Invalid::new("must have names of filters as keys").at(FIELD));
            }
            check(config).within(&format!("{FIELD}[{name:?}]"))?;
        }
        Ok(())
    }
}

/// gRFC A39: a configuration of an unknown filter makes the resource invalid, unless it is marked as optional. No filter that
/// is implemented here has a configuration to override.
fn check(config: &Any) -> Result<(), Invalid> {
    if message(config) != FILTER_CONFIG {
        return unsupported(config);
    }
    let wrapper = FilterConfig::decode(&*config.value)?;
    match &wrapper.config {
        Some(config) if config.type_url.is_empty() || !wrapper.is_optional => {
            unsupported(config).within("config")
        }
        None if !wrapper.is_optional => Err(Invalid::new("must be set").at("config")),
        _ => Ok(()),
    }
}

fn unsupported(config: &Any) -> Result<(), Invalid> {
    match message(config) {
        "" => Err(Invalid::new("must not be empty").at("type_url")),
        found => Err(Invalid::new(format!("{found:?} is not supported"))),
    }
}
