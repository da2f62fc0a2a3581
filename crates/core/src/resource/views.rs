//! The views as parsers, and the set of them that a gRPC channel uses.

use oxds_types::ResourceType;

use super::assignment::Assignment;
use super::cluster::Cluster;
use super::extension::Extensions;
use super::invalid::Invalid;
use super::listener::Listener;
use super::parser::{ResourceParser, ResourceParsers, Typed};
use super::route::RouteConfig;

macro_rules! view {
    ($view:ident, $resource_type:expr $(, $extensions:expr)?) => {
        impl Typed for $view {
            fn resource_type() -> ResourceType {
                $resource_type
            }

            fn parse(value: &[u8]) -> Result<Self, Invalid> {
                Self::from_bytes(value $(, $extensions)?)
            }
        }
    };
}

view!(Listener, ResourceType::LISTENER, &Extensions::default());
view!(RouteConfig, ResourceType::ROUTE, &Extensions::default());
view!(Cluster, ResourceType::CLUSTER, &Extensions::default());
view!(Assignment, ResourceType::ENDPOINT);

impl ResourceParsers {
    /// Returns the parsers of a gRPC channel: the four views, with gRPC's rules, without extensions.
    #[must_use]
    pub fn grpc() -> Self {
        Self::grpc_with(&Extensions::default())
    }

    /// Returns the parsers of a gRPC channel with these extensions.
    #[must_use]
    pub fn grpc_with(extensions: &Extensions) -> Self {
        let mut parsers = Self::default();
        let known = extensions.clone();
        parsers.register(ResourceParser::with(move |value| {
            Listener::from_bytes(value, &known)
        }));
        let known = extensions.clone();
        parsers.register(ResourceParser::with(move |value| {
            RouteConfig::from_bytes(value, &known)
        }));
        let known = extensions.clone();
        parsers.register(ResourceParser::with(move |value| {
            Cluster::from_bytes(value, &known)
        }));
        parsers.register(ResourceParser::of::<Assignment>());
        parsers
    }
}
