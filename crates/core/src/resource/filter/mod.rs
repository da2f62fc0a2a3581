//! HTTP filters of a listener, and their overrides (gRFC A39).
//!
//! ```text
//!  http_filters of the listener ──► HttpFilter (name, configuration), in order, without the router
//!  typed_per_filter_config      ──► FilterOverrides, by name of the filter
//! ```

mod audit;
mod config;
mod overrides;
mod rbac;
mod session;
mod side;

use std::collections::HashSet;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter as FilterProto, http_filter::ConfigType,
};

use super::Invalid;
use super::extension::{ExtensionConfig, Extensions};
use super::invalid::Within;

pub use audit::{AuditTarget, CustomLogger};
pub use config::{CustomFilter, FilterConfig};
pub(super) use overrides::OverrideRules;
pub use overrides::{FilterOverride, FilterOverrides};
pub use rbac::RbacConfig;
pub(super) use side::Side;

const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";
const FIELD: &str = "http_filters";

/// An HTTP filter of a listener.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpFilter {
    /// Name of the filter in its listener, by which overrides refer to it.
    pub name: Arc<str>,
    /// Configuration, unless a virtual host, a route or a weighted cluster overrides it.
    pub config: FilterConfig,
}

impl HttpFilter {
    /// Reads a filter of the program, as a listener has it.
    ///
    /// # Errors
    /// The filter is unknown, or its configuration is invalid.
    pub fn added(
        name: &str,
        config: &ExtensionConfig,
        extensions: &Extensions,
    ) -> Result<Self, Invalid> {
        let found = config::custom(config, extensions)?;
        let unknown = || Invalid::new(format!("{:?} is not supported", config.type_name));
        Ok(Self {
            name: name.into(),
            config: found.ok_or_else(unknown)?,
        })
    }
}

/// Reads the HTTP filters of a listener: the router must be the last one, and is left out. A filter that is not
/// supported on this side must be optional, and is ignored (gRFC A39).
pub(super) fn http_filters(
    protos: &[FilterProto],
    extensions: &Extensions,
    side: Side,
) -> Result<Vec<HttpFilter>, Invalid> {
    let mut names = HashSet::new();
    let mut filters = Vec::new();
    let mut router = None;
    for (index, proto) in protos.iter().enumerate() {
        if proto.name.is_empty() {
            return Err(Invalid::new("must have a name").at_index(FIELD, index));
        }
        if !names.insert(&proto.name) {
            let rule = format!("has the name {:?} of a filter before it", proto.name);
            return Err(Invalid::new(rule).at_index(FIELD, index));
        }
        let is_router = is_router(proto);
        match (is_router, router) {
            (true, Some(first)) => {
                let rule = format!("is a second router, after {FIELD}[{first}]");
                return Err(Invalid::new(rule).at_index(FIELD, index));
            }
            (true, None) => router = Some(index),
            (false, _) => {
                let filter = filter(proto, extensions, side).within_index(FIELD, index)?;
                if let (Some(_), Some(router)) = (&filter, router) {
                    let rule = format!("must not follow the router, {FIELD}[{router}]");
                    return Err(Invalid::new(rule).at_index(FIELD, index));
                }
                filters.extend(filter);
            }
        }
    }
    match router {
        Some(_) => Ok(filters),
        None => Err(Invalid::new("must end with a router").at(FIELD)),
    }
}

fn is_router(proto: &FilterProto) -> bool {
    match &proto.config_type {
        Some(ConfigType::TypedConfig(any)) => super::convert::message(any) == ROUTER,
        _ => false,
    }
}

/// Returns `None` for a filter that is ignored.
fn filter(
    proto: &FilterProto,
    extensions: &Extensions,
    side: Side,
) -> Result<Option<HttpFilter>, Invalid> {
    let config = match &proto.config_type {
        Some(ConfigType::TypedConfig(any)) => {
            let config = ExtensionConfig::from_any(any).within("typed_config")?;
            let parsed = FilterConfig::of_listener(&config, extensions, side);
            parsed.within("typed_config")?.ok_or(config.type_name)
        }
        _ => Err("".into()),
    };
    match config {
        Ok(config) => Ok(Some(HttpFilter {
            name: proto.name.as_str().into(),
            config,
        })),
        Err(_) if proto.is_optional => Ok(None),
        Err(found) => Err(Invalid::new(format!(
            "{:?} of type {found:?} is not supported",
            proto.name
        ))),
    }
}
