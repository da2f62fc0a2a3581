//! The views as parsers, and the set of them that a gRPC channel uses.

use oxds_types::ResourceType;

use super::assignment::Assignment;
use super::cluster::Cluster;
use super::invalid::Invalid;
use super::listener::Listener;
use super::parser::{ResourceParser, ResourceParsers, Typed};
use super::route::RouteConfig;

macro_rules! view {
    ($view:ident, $resource_type:expr) => {
        impl Typed for $view {
            fn resource_type() -> ResourceType {
                $resource_type
            }

            fn parse(value: &[u8]) -> Result<Self, Invalid> {
                Self::from_bytes(value)
            }
        }
    };
}

view!(Listener, ResourceType::LISTENER);
view!(RouteConfig, ResourceType::ROUTE);
view!(Cluster, ResourceType::CLUSTER);
view!(Assignment, ResourceType::ENDPOINT);

impl ResourceParsers {
    /// Returns the parsers of a gRPC channel: the four views, with gRPC's rules.
    #[must_use]
    pub fn grpc() -> Self {
        let mut parsers = Self::default();
        parsers.register(ResourceParser::of::<Listener>());
        parsers.register(ResourceParser::of::<RouteConfig>());
        parsers.register(ResourceParser::of::<Cluster>());
        parsers.register(ResourceParser::of::<Assignment>());
        parsers
    }
}
