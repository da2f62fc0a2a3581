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
//! It does not keep what no gRPC client reads, and it does not decode kinds that a channel has no use for: watch
//! those raw.

mod assignment;
mod cluster;
mod convert;
mod invalid;
mod listener;
mod route;

use std::sync::Arc;

use bytes::Bytes;
use oxds_types::Kind;

use crate::ads::ServerId;

pub use assignment::{Assignment, Endpoint, Locality, LocalityId};
pub use cluster::{Cluster, LrsServer};
pub use invalid::Invalid;
pub use listener::{ApiListener, Listener, RouteSource};
pub use route::{Action, Forward, Route, RouteConfig, StreamLimit, Target, VirtualHost};

/// A resource of any kind that has a view.
#[derive(Debug, Clone)]
pub enum Resource {
    /// A listener.
    Listener(Arc<Listener>),
    /// A route configuration.
    RouteConfig(Arc<RouteConfig>),
    /// A cluster.
    Cluster(Arc<Cluster>),
    /// A cluster's endpoints.
    Assignment(Arc<Assignment>),
    /// A resource of a kind without a view: its bytes are all there is to it.
    Raw(Bytes),
}

/// A view: made from bytes, or the rule that they break.
pub trait View: Sized + Send + Sync + 'static {
    /// The kind viewed.
    const KIND: Kind;

    /// Checks and compiles the encoded message.
    fn parse(value: &[u8]) -> Result<Self, Invalid>;

    /// The resource's own name.
    fn name(&self) -> &Arc<str>;

    /// This view, if `resource` is of its kind.
    fn from_resource(resource: &Resource) -> Option<&Arc<Self>>;
}

macro_rules! view {
    ($view:ident, $kind:expr) => {
        impl View for $view {
            const KIND: Kind = $kind;

            fn parse(value: &[u8]) -> Result<Self, Invalid> {
                Self::from_bytes(value)
            }

            fn name(&self) -> &Arc<str> {
                &self.name
            }

            fn from_resource(resource: &Resource) -> Option<&Arc<Self>> {
                match resource {
                    Resource::$view(view) => Some(view),
                    _ => None,
                }
            }
        }
    };
}

view!(Listener, Kind::LISTENER);
view!(RouteConfig, Kind::ROUTE);
view!(Cluster, Kind::CLUSTER);
view!(Assignment, Kind::ENDPOINT);

impl Resource {
    /// The same resource, if it depends on which server sent it, and that is another one than before.
    pub(crate) fn moved_to(&self, server: ServerId) -> Option<Self> {
        match self {
            Self::Cluster(cluster) => Some(Self::Cluster(Arc::new(cluster.moved_to(server)?))),
            _ => None,
        }
    }

    /// Parses the encoded message of a kind. The name is `None` for kinds without a view, which only a wrapper names.
    ///
    /// # Errors
    /// The rule that the resource breaks. Its name, when that much of it could be read, is in the error.
    pub fn parse(kind: &Kind, value: &Bytes) -> Result<(Option<Arc<str>>, Self), Invalid> {
        fn named<T: View>(
            value: &[u8],
            wrap: fn(Arc<T>) -> Resource,
        ) -> Result<(Option<Arc<str>>, Resource), Invalid> {
            let view = T::parse(value)?;
            Ok((Some(Arc::clone(view.name())), wrap(Arc::new(view))))
        }
        if *kind == Kind::LISTENER {
            named(value, Resource::Listener)
        } else if *kind == Kind::ROUTE {
            named(value, Resource::RouteConfig)
        } else if *kind == Kind::CLUSTER {
            named(value, Resource::Cluster)
        } else if *kind == Kind::ENDPOINT {
            named(value, Resource::Assignment)
        } else {
            Ok((None, Self::Raw(value.clone())))
        }
    }
}
