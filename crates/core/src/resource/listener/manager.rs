//! HttpConnectionManager, as clients and servers use it: source of the routes, and HTTP filters.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use envoy_types::pb::google::protobuf::Any;
use oxds_types::Decode;

use crate::resource::convert::{duration, message, same_server};
use crate::resource::extension::Extensions;
use crate::resource::filter::{HttpFilter, OverrideRules, Side, http_filters};
use crate::resource::invalid::Within;
use crate::resource::{Invalid, RouteConfig};

const V3: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const V2: &str = "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";

/// Fields of an HttpConnectionManager that gRPC uses.
pub(super) struct HttpManager {
    pub(super) routes: RouteSource,
    pub(super) max_stream_duration: Option<Duration>,
    pub(super) filters: Vec<HttpFilter>,
}

/// Source of a listener's route configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteSource {
    /// An RDS resource of this name.
    Rds(Arc<str>),
    /// A route configuration inside the listener.
    Inline(Arc<RouteConfig>),
}

/// Returns whether this is an HttpConnectionManager of API v3.
pub(super) fn is_http_manager(any: &Any) -> bool {
    message(any) == V3
}

impl HttpManager {
    pub(super) fn from_any(
        any: &Any,
        extensions: &Extensions,
        side: Side,
    ) -> Result<Self, Invalid> {
        let is_v3 = match message(any) {
            V3 => true,
            V2 if side == Side::Client => false,
            found => {
                return Err(Invalid::new(format!(
                    "must be an HttpConnectionManager, not {found:?}"
                )));
            }
        };
        let manager = HttpConnectionManager::from_bytes(&any.value)?;
        // gRFC A41: both fields must be unset, since they concern the client's address as a server sees it.
        if manager.xff_num_trusted_hops != 0 {
            return Err(Invalid::new("must be zero").at("xff_num_trusted_hops"));
        }
        if !manager.original_ip_detection_extensions.is_empty() {
            return Err(Invalid::new("must be empty").at("original_ip_detection_extensions"));
        }
        // gRFC A31, A39: filters and durations are features of v3 listeners only (C-59).
        let mut max_stream_duration = None;
        let mut overrides = OverrideRules::Ignore;
        let mut filters = Vec::new();
        if is_v3 {
            overrides = OverrideRules::Read(extensions);
            filters = http_filters(&manager.http_filters, extensions, side)?;
            let options = manager.common_http_protocol_options.as_ref();
            max_stream_duration = options
                .and_then(|options| options.max_stream_duration.as_ref())
                .map(duration)
                .transpose()
                .within("common_http_protocol_options.max_stream_duration")?;
        }
        Ok(Self {
            routes: RouteSource::from_specifier(manager.route_specifier, overrides)?,
            max_stream_duration,
            filters,
        })
    }
}

impl RouteSource {
    fn from_specifier(
        specifier: Option<RouteSpecifier>,
        overrides: OverrideRules<'_>,
    ) -> Result<Self, Invalid> {
        match specifier {
            Some(RouteSpecifier::Rds(rds)) => {
                same_server(rds.config_source.as_ref()).within("rds.config_source")?;
                match rds.route_config_name.as_str() {
                    "" => Err(Invalid::new("must not be empty").at("rds.route_config_name")),
                    name => Ok(Self::Rds(name.into())),
                }
            }
            Some(RouteSpecifier::RouteConfig(inline)) => {
                let routes = RouteConfig::from_proto(inline, overrides).within("route_config")?;
                Ok(Self::Inline(Arc::new(routes)))
            }
            Some(RouteSpecifier::ScopedRoutes(_)) => {
                Err(Invalid::new("is not supported").at("scoped_routes"))
            }
            None => Err(Invalid::new("must be rds or route_config").at("route_specifier")),
        }
    }
}
