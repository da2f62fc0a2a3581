//! View of LDS resources: the root of a channel's configuration.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::Listener as ListenerProto;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::convert::{duration, message, same_server};
use super::extension::Extensions;
use super::filter::{HttpFilter, OverrideRules, http_filters};
use super::invalid::Within;
use super::{Invalid, RouteConfig};

/// A listener, as gRPC clients use it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// Name of the listener.
    pub name: Arc<str>,
    /// The API listener; `None` for a socket listener, which is valid but useless to a channel (C-178).
    pub api: Option<ApiListener>,
}

/// API listener: the part of a listener that clients use.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiListener {
    /// Source of the route configuration.
    pub routes: RouteSource,
    /// Limit on the duration of RPCs whose route has none; zero means no limit (gRFC A31).
    pub max_stream_duration: Option<Duration>,
    /// HTTP filters, in the order in which they run, without the router (gRFC A39).
    pub filters: Vec<HttpFilter>,
}

/// Source of a listener's route configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteSource {
    /// An RDS resource of this name.
    Rds(Arc<str>),
    /// A route configuration inside the listener.
    Inline(Arc<RouteConfig>),
}

const HTTP_CONNECTION_MANAGERS: [&str; 2] = [
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager",
];

impl Listener {
    pub(super) fn from_bytes(value: &[u8], extensions: &Extensions) -> Result<Self, Invalid> {
        let proto = ListenerProto::decode(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        let api = match &proto.api_listener {
            None => None,
            Some(api) => Some(
                ApiListener::from_any(api.api_listener.as_ref(), extensions)
                    .within("api_listener.api_listener")
                    .map_err(|invalid| invalid.of(&proto.name))?,
            ),
        };
        // A socket listener has an address. A listener with neither is empty, and invalid.
        if api.is_none() && proto.address.is_none() {
            return Err(Invalid::new("must be set")
                .at("api_listener")
                .of(&proto.name));
        }
        Ok(Self {
            name: proto.name.into(),
            api,
        })
    }
}

impl ApiListener {
    fn from_any(any: Option<&Any>, extensions: &Extensions) -> Result<Self, Invalid> {
        let any = any.ok_or_else(|| Invalid::new("must be set"))?;
        let v3 = match HTTP_CONNECTION_MANAGERS
            .iter()
            .position(|known| message(any) == *known)
        {
            Some(index) => index == 0,
            None => {
                let found = message(any);
                return Err(Invalid::new(format!(
                    "must be an HttpConnectionManager, not {found:?}"
                )));
            }
        };
        let manager = HttpConnectionManager::decode(&*any.value)?;
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
        if v3 {
            overrides = OverrideRules::Read(extensions);
            filters = http_filters(&manager.http_filters, extensions)?;
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
