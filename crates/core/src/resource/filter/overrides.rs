//! Filter configurations of virtual hosts, routes and weighted clusters: `typed_per_filter_config` (gRFC A39).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig as FilterConfigProto;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::config::{FAULT, FilterConfig, custom, fault};
use super::rbac::{RBAC_PER_ROUTE, rbac_override};
use super::session::{SESSION_PER_ROUTE, session_override};
use crate::resource::Invalid;
use crate::resource::convert::message;
use crate::resource::extension::{ExtensionConfig, Extensions};
use crate::resource::invalid::Within;

const FIELD: &str = "typed_per_filter_config";
const FILTER_CONFIG: &str = "envoy.config.route.v3.FilterConfig";

/// Configurations that replace those of a listener's filters, by name of the filter. Names without a filter have no
/// effect.
pub type FilterOverrides = BTreeMap<Arc<str>, FilterOverride>;

/// Replacement of a filter's configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterOverride {
    /// The filter has this configuration.
    Config(FilterConfig),
    /// The filter does not run.
    Disabled,
}

/// Whether filter configurations are read: HTTP filters are a feature of v3 listeners (C-59).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverrideRules<'a> {
    Read(&'a Extensions),
    Ignore,
}

impl OverrideRules<'_> {
    /// Reads the configurations of filters, by name of the filter.
    pub(crate) fn read(self, configs: &HashMap<String, Any>) -> Result<FilterOverrides, Invalid> {
        let mut overrides = FilterOverrides::new();
        let Self::Read(extensions) = self else {
            return Ok(overrides);
        };
        // In order, so that the error does not depend on the order of a hash map.
        for (name, config) in configs.iter().collect::<BTreeMap<_, _>>() {
            if name.is_empty() {
                return Err(Invalid::new("must have names of filters as keys").at(FIELD));
            }
            let read = read(config, extensions).within(&format!("{FIELD}[{name:?}]"))?;
            overrides.extend(read.map(|read| (Arc::from(name.as_str()), read)));
        }
        Ok(overrides)
    }
}

/// Reads one configuration; `None` if it is ignored.
///
/// gRFC A39: a configuration of an unknown filter makes the resource invalid, unless it is marked as optional.
fn read(any: &Any, extensions: &Extensions) -> Result<Option<FilterOverride>, Invalid> {
    if message(any) != FILTER_CONFIG {
        return required(any, extensions).map(Some);
    }
    let wrapper = FilterConfigProto::decode(&*any.value)?;
    if wrapper.disabled {
        return Ok(Some(FilterOverride::Disabled));
    }
    let found = match &wrapper.config {
        Some(config) if wrapper.is_optional => config_of(config, extensions).within("config")?,
        Some(config) => Some(required(config, extensions).within("config")?),
        None if wrapper.is_optional => None,
        None => return Err(Invalid::new("must be set").at("config")),
    };
    Ok(found)
}

fn required(any: &Any, extensions: &Extensions) -> Result<FilterOverride, Invalid> {
    let found = config_of(any, extensions)?;
    found.ok_or_else(|| Invalid::new(format!("{:?} is not supported", message(any))))
}

/// Reads the configuration of a filter; `None` if the filter is unknown.
fn config_of(any: &Any, extensions: &Extensions) -> Result<Option<FilterOverride>, Invalid> {
    let config = ExtensionConfig::from_any(any)?;
    let found = match &*config.type_name {
        FAULT => Some(fault(&config)?),
        SESSION_PER_ROUTE => {
            let session = session_override(&config)?;
            return Ok(Some(session.map_or(FilterOverride::Disabled, |session| {
                FilterOverride::Config(FilterConfig::Session(Some(session)))
            })));
        }
        // `RBACPerRoute.rbac`: without it, the filter does not run on the route.
        RBAC_PER_ROUTE => {
            let rbac = rbac_override(&config, extensions)?;
            return Ok(Some(rbac.map_or(FilterOverride::Disabled, |rbac| {
                FilterOverride::Config(FilterConfig::Rbac(rbac))
            })));
        }
        _ => custom(&config, extensions)?,
    };
    Ok(found.map(FilterOverride::Config))
}
