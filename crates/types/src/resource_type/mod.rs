//! Resource kinds: one row of a table for each that xDS knows, anything else by its type URL.
//!
//! The order of the table is the order in which changes may be sent so that nothing arrives
//! before what it depends on ("Eventual consistency considerations" of the xDS protocol:
//! clusters, then endpoints, then listeners, then routes). [`ResourceType`] sorts in that order, and
//! kinds outside the table come last.

use std::fmt;
use std::sync::Arc;

mod table;

pub use table::{ADS, Service};
use table::{KNOWN, Known};

/// The prefix of every type URL of an xDS resource.
pub const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// The major version of the API that a type URL or a service belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiVersion {
    /// The version retired from Envoy in 2021; old clients still speak it.
    V2,
    /// The current version.
    V3,
}

/// What a resource is: cluster, listener, … A cheap handle; two handles of a kind are equal
/// whichever API version they were made from.
///
/// ```
/// use oxds_types::{ApiVersion, ResourceType};
///
/// let (kind, version) = ResourceType::from_type_url("type.googleapis.com/envoy.api.v2.Cluster").unwrap();
/// assert_eq!(kind, ResourceType::CLUSTER);
/// assert_eq!(version, ApiVersion::V2);
/// assert_eq!(kind.type_url(), "type.googleapis.com/envoy.config.cluster.v3.Cluster");
/// assert!(ResourceType::CLUSTER < ResourceType::LISTENER, "clusters are sent before listeners");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceType(Repr);

// The derived order puts `Known` first, by index: the table's order is the kinds' order.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    /// Index into `KNOWN`.
    Known(u8),
    /// Full type URL.
    Other(Arc<str>),
}

impl ResourceType {
    /// CDS: `envoy.config.cluster.v3.Cluster`.
    pub const CLUSTER: ResourceType = ResourceType(Repr::Known(0));
    /// EDS: `envoy.config.endpoint.v3.ClusterLoadAssignment`.
    pub const ENDPOINT: ResourceType = ResourceType(Repr::Known(1));
    /// LEDS: `envoy.config.endpoint.v3.LbEndpoint`.
    pub const LB_ENDPOINT: ResourceType = ResourceType(Repr::Known(2));
    /// LDS: `envoy.config.listener.v3.Listener`.
    pub const LISTENER: ResourceType = ResourceType(Repr::Known(3));
    /// RDS: `envoy.config.route.v3.RouteConfiguration`.
    pub const ROUTE: ResourceType = ResourceType(Repr::Known(4));
    /// SRDS: `envoy.config.route.v3.ScopedRouteConfiguration`.
    pub const SCOPED_ROUTE: ResourceType = ResourceType(Repr::Known(5));
    /// VHDS: `envoy.config.route.v3.VirtualHost`.
    pub const VIRTUAL_HOST: ResourceType = ResourceType(Repr::Known(6));
    /// SDS: `envoy.extensions.transport_sockets.tls.v3.Secret`.
    pub const SECRET: ResourceType = ResourceType(Repr::Known(7));
    /// RTDS: `envoy.service.runtime.v3.Runtime`.
    pub const RUNTIME: ResourceType = ResourceType(Repr::Known(8));
    /// ECDS: `envoy.config.core.v3.TypedExtensionConfig`.
    pub const EXTENSION_CONFIG: ResourceType = ResourceType(Repr::Known(9));
    /// RLS configuration: `ratelimit.config.ratelimit.v3.RateLimitConfig`.
    pub const RATE_LIMIT_CONFIG: ResourceType = ResourceType(Repr::Known(10));

    /// The kinds of the table, in the order in which changes are sent.
    pub fn known() -> impl ExactSizeIterator<Item = ResourceType> + DoubleEndedIterator {
        (0..KNOWN.len()).map(|index| ResourceType(Repr::Known(index as u8)))
    }

    /// The kind that a type URL names, and the API version in which it does.
    ///
    /// A URL whose message is in no table is a kind of its own (of version 3, since nothing says
    /// otherwise). `None`: the text has not the form `prefix/full.message.Name`.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<(ResourceType, ApiVersion)> {
        let (_, message) = url.rsplit_once('/')?;
        let well_formed = message.contains('.')
            && message.split('.').all(|part| {
                part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            });
        well_formed.then(|| ResourceType::from_message(message))
    }

    /// As [`from_type_url`](ResourceType::from_type_url), from a message's full name.
    #[must_use]
    pub fn from_message(message: &str) -> (ResourceType, ApiVersion) {
        for (index, known) in KNOWN.iter().enumerate() {
            for (url, version) in [
                (Some(known.v3_url), ApiVersion::V3),
                (known.v2_url, ApiVersion::V2),
            ] {
                if url.is_some_and(|url| &url[TYPE_URL_PREFIX.len()..] == message) {
                    return (ResourceType(Repr::Known(index as u8)), version);
                }
            }
        }
        let url = format!("{TYPE_URL_PREFIX}{message}");
        (ResourceType(Repr::Other(url.into())), ApiVersion::V3)
    }

    /// The kind whose resources are such messages, be it of the API or of one's own.
    ///
    /// ```
    /// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    /// use oxds_types::ResourceType;
    ///
    /// assert_eq!(ResourceType::of::<Cluster>(), ResourceType::CLUSTER);
    /// ```
    #[must_use]
    pub fn of<M: prost::Name>() -> ResourceType {
        ResourceType::from_message(&M::full_name()).0
    }

    /// The kind with this short name (`cds`, `eds`, …), in either case.
    #[must_use]
    pub fn from_short_name(name: &str) -> Option<ResourceType> {
        ResourceType::known().find(|resource_type| {
            resource_type
                .short_name()
                .is_some_and(|s| s.eq_ignore_ascii_case(name))
        })
    }

    /// The current (v3) type URL.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match &self.0 {
            Repr::Known(_) => self.row().map_or("", |known| known.v3_url),
            Repr::Other(url) => url,
        }
    }

    /// The type URL in an API version; `None` when the kind does not exist in it.
    #[must_use]
    pub fn type_url_in(&self, version: ApiVersion) -> Option<&str> {
        match version {
            ApiVersion::V3 => Some(self.type_url()),
            ApiVersion::V2 => self.row()?.v2_url,
        }
    }

    /// The type URL on streams of an API version. A kind that v2 does not have goes by the only name it has.
    #[must_use]
    pub fn type_url_on(&self, version: ApiVersion) -> &str {
        self.type_url_in(version).unwrap_or(self.type_url())
    }

    /// Full name of the current (v3) message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.type_url()[TYPE_URL_PREFIX.len()..]
    }

    /// What the field calls it: `cds`, `eds`, …; `None` outside the table.
    #[must_use]
    pub fn short_name(&self) -> Option<&'static str> {
        self.row().map(|known| known.short_name)
    }

    /// Whether a SotW response carries the full state of the kind, so that absence is removal
    /// (LDS and CDS; xDS protocol, "How the client specifies what resources to return"). These
    /// are also the kinds with the legacy wildcard: a first request without names asks for all.
    #[must_use]
    pub fn all_resources_required_in_sotw(&self) -> bool {
        self.row().is_some_and(|known| known.full_state)
    }

    /// The discovery service for this kind alone; `None` where the API version has none.
    #[must_use]
    pub fn service(&self, version: ApiVersion) -> Option<&'static Service> {
        match version {
            ApiVersion::V3 => Some(&self.row()?.v3_service),
            ApiVersion::V2 => self.row()?.v2_service.as_ref(),
        }
    }

    fn row(&self) -> Option<&'static Known> {
        match &self.0 {
            Repr::Known(index) => KNOWN.get(usize::from(*index)),
            Repr::Other(_) => None,
        }
    }
}

/// The short name, or the message's full name outside the table.
impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name().unwrap_or_else(|| self.message()))
    }
}

impl fmt::Debug for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

#[cfg(test)]
mod tests;
