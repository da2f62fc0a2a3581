//! Parse-don't-validate views of the resources that a data plane uses.
//!
//! A view is made from the bytes of a resource as they came, holds only what oxds uses, and cannot be made from a
//! resource that breaks a rule: what a picker or a route table needs is there, compiled, and in range. A resource
//! that breaks a rule becomes an [`Invalid`], which names the field and the rule and ends up in the NACK (gRFC A27,
//! A28, and what each view cites).
//!
//! | view | of | rules |
//! |---|---|---|
//! | [`Listener`] | `envoy.config.listener.v3.Listener` | gRFC A27, A28, A31, A39, A41 |
//! | [`RouteConfig`] | `envoy.config.route.v3.RouteConfiguration` | gRFC A28, A31, A63 |
//! | [`Cluster`] | `envoy.config.cluster.v3.Cluster` | gRFC A27, A32, A37, A47 |
//! | [`Assignment`] | `envoy.config.endpoint.v3.ClusterLoadAssignment` | gRFC A27, A56 |
//!
//! It does not keep what no gRPC client reads. Who wants all of a resource, or a kind without a view, watches it as the
//! generated message ([`Typed`]), or raw.

mod assignment;
mod cluster;
mod convert;
mod invalid;
mod listener;
mod name;
mod route;
mod typed;

use oxds_types::ResourceType;

pub use assignment::{Assignment, Endpoint, Locality, LocalityId};
pub use cluster::{Cluster, LrsServer};
pub use invalid::Invalid;
pub use listener::{ApiListener, Listener, RouteSource};
pub use name::own_name;
pub use route::{Forward, Route, RouteAction, RouteConfig, RouteTarget, StreamLimit, VirtualHost};
pub use typed::{ParsedResource, ResourceParser, ResourceParsers, Typed};

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
