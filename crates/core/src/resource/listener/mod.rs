//! View of LDS resources: the root of a channel's configuration, and of a server's.
//!
//! ```text
//!  api_listener ──────► ApiListener                    for channels
//!  address, chains ───► SocketListener ─► FilterChains  for servers
//! ```

mod chain;
mod chains;
mod manager;
mod matching;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3::Listener as ListenerProto;
use envoy_types::pb::google::protobuf::Any;
use oxds_types::Decode;

use super::Invalid;
use super::extension::Extensions;
use super::filter::{HttpFilter, Side};
use super::invalid::Within;
use manager::HttpManager;

pub use chain::FilterChain;
pub use chains::FilterChains;
pub use manager::RouteSource;
pub use socket::SocketListener;

/// A listener, as gRPC clients and servers use it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// Name of the listener.
    pub name: Arc<str>,
    /// The API listener; `None` for a socket listener, which is valid but useless to a channel (C-178).
    pub api: Option<ApiListener>,
    /// The socket listener; `None` for an API listener, which is valid but useless to a server (gRFC A36).
    pub socket: Option<SocketListener>,
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

impl Listener {
    pub(super) fn from_bytes(value: &[u8], extensions: &Extensions) -> Result<Self, Invalid> {
        let proto = ListenerProto::from_bytes(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        let (api, socket) = match &proto.api_listener {
            // As in gRPC, a listener with both is for clients.
            Some(api) => {
                let api = ApiListener::from_any(api.api_listener.as_ref(), extensions)
                    .within("api_listener.api_listener")
                    .map_err(|invalid| invalid.of(&proto.name))?;
                (Some(api), None)
            }
            // A socket listener has an address. A listener with neither is empty, and invalid.
            None if proto.address.is_none() => {
                return Err(Invalid::new("must be set")
                    .at("api_listener")
                    .of(&proto.name));
            }
            None => {
                let socket = SocketListener::from_proto(&proto, extensions);
                (
                    None,
                    Some(socket.map_err(|invalid| invalid.of(&proto.name))?),
                )
            }
        };
        Ok(Self {
            name: proto.name.into(),
            api,
            socket,
        })
    }
}

impl Listener {
    /// Returns the listener as sent by a server that is trusted, or not, if that changes its routes (C-195). Routes of
    /// servers forward nothing, so they do not depend on it.
    pub(super) fn moved_to(&self, is_trusted: bool) -> Option<Self> {
        let api = self.api.as_ref()?;
        let RouteSource::Inline(routes) = &api.routes else {
            return None;
        };
        let routes = RouteSource::Inline(Arc::new(routes.moved_to(is_trusted)?));
        let api = ApiListener {
            routes,
            ..api.clone()
        };
        Some(Self {
            name: Arc::clone(&self.name),
            api: Some(api),
            socket: None,
        })
    }
}

impl ApiListener {
    fn from_any(any: Option<&Any>, extensions: &Extensions) -> Result<Self, Invalid> {
        let any = any.ok_or_else(|| Invalid::new("must be set"))?;
        let manager = HttpManager::from_any(any, extensions, Side::Client)?;
        Ok(Self {
            routes: manager.routes,
            max_stream_duration: manager.max_stream_duration,
            filters: manager.filters,
        })
    }
}
