//! Filter chain: how a server treats the connections that match it (gRFC A36).

use std::collections::HashSet;

use envoy_types::pb::envoy::config::listener::v3::{
    Filter as FilterProto, FilterChain as ChainProto, filter::ConfigType,
};

use super::manager::{HttpManager, RouteSource, is_http_manager};
use crate::resource::convert::message;
use crate::resource::extension::Extensions;
use crate::resource::filter::{HttpFilter, Side};
use crate::resource::invalid::Within;
use crate::resource::{DownstreamTls, Invalid};

/// Filter chain: how a server treats the connections that it matches.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterChain {
    /// Name; may be empty.
    pub name: Box<str>,
    /// Source of the route configuration.
    pub routes: RouteSource,
    /// HTTP filters, in the order in which they run, without the router (gRFC A39).
    pub filters: Vec<HttpFilter>,
    /// TLS of its connections; `None`: those of the program (gRFC A29).
    pub tls: Option<DownstreamTls>,
}

impl FilterChain {
    pub(super) fn from_proto(proto: &ChainProto, extensions: &Extensions) -> Result<Self, Invalid> {
        let manager = http_manager(&proto.filters, extensions)?;
        let tls = proto.transport_socket.as_ref();
        let tls = tls.map(|socket| DownstreamTls::from_socket(socket, extensions.tls_rules()));
        Ok(Self {
            name: proto.name.as_str().into(),
            routes: manager.routes,
            filters: manager.filters,
            tls: tls.transpose().within("transport_socket")?,
        })
    }
}

/// Reads the network filters of a chain. Each must be an HttpConnectionManager; the first one is used (gRFC A36).
fn http_manager(protos: &[FilterProto], extensions: &Extensions) -> Result<HttpManager, Invalid> {
    let mut names = HashSet::new();
    let mut first = None;
    for (index, proto) in protos.iter().enumerate() {
        let manager = network_filter(proto, extensions, &mut names);
        let manager = manager.within_index("filters", index)?;
        first.get_or_insert(manager);
    }
    first.ok_or_else(|| Invalid::new("must have an HttpConnectionManager").at("filters"))
}

fn network_filter<'a>(
    proto: &'a FilterProto,
    extensions: &Extensions,
    names: &mut HashSet<&'a str>,
) -> Result<HttpManager, Invalid> {
    if proto.name.is_empty() {
        return Err(Invalid::new("must have a name"));
    }
    if !names.insert(&proto.name) {
        let rule = format!("has the name {:?} of a filter before it", proto.name);
        return Err(Invalid::new(rule));
    }
    match &proto.config_type {
        Some(ConfigType::TypedConfig(any)) if is_http_manager(any) => {
            HttpManager::from_any(any, extensions, Side::Server).within("typed_config")
        }
        Some(ConfigType::TypedConfig(any)) => Err(Invalid::new(format!(
            "{:?} of type {:?} is not supported",
            proto.name,
            message(any)
        ))),
        _ => Err(Invalid::new("must be set").at("typed_config")),
    }
}
