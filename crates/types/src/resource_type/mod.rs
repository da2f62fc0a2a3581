//! Resource types. The types of xDS are rows of a table; any other type is identified by its type URL.
//!
//! The order of the table is the order in which updates are sent, so that a resource arrives after the resources it
//! depends on (xDS protocol, "Eventual consistency considerations": clusters, then endpoints, then listeners, then
//! routes). Clusters and listeners refer to secrets: a client subscribes to those of a cluster after it has the
//! cluster, so they come between. [`ResourceType`] sorts in that order. Types outside the table come last.

use std::fmt;
use std::sync::Arc;

mod table;

pub use table::{ADS, Service};
use table::{KNOWN, TypeRow};

/// The prefix of every type URL of an xDS resource.
pub const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// The major version of the API that a type URL or a service belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiVersion {
    /// API v2, removed from Envoy in 2021. Old clients still use it.
    V2,
    /// API v3, the current version.
    V3,
}

/// The type of a resource: cluster, listener, … The value is cheap to clone. The v2 and v3 type URLs of a type give
/// equal values.
///
/// ```
/// use oxds_types::{ApiVersion, ResourceType};
///
/// let (resource_type, version) = ResourceType::from_type_url("type.googleapis.com/envoy.api.v2.Cluster").unwrap();
/// assert_eq!(resource_type, ResourceType::CLUSTER);
/// assert_eq!(version, ApiVersion::V2);
/// assert_eq!(resource_type.type_url(), "type.googleapis.com/envoy.config.cluster.v3.Cluster");
/// assert!(ResourceType::CLUSTER < ResourceType::LISTENER, "clusters are sent before listeners");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceType(Repr);

// The derived order sorts `Known` first and by index, so types sort in the order of the table.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    /// A type of the table: the index into `KNOWN`.
    Known(u8),
    /// Any other type: its v3 type URL.
    Other(Arc<str>),
}

impl ResourceType {
    /// CDS: `envoy.config.cluster.v3.Cluster`.
    pub const CLUSTER: ResourceType = ResourceType(Repr::Known(0));
    /// EDS: `envoy.config.endpoint.v3.ClusterLoadAssignment`.
    pub const ENDPOINT: ResourceType = ResourceType(Repr::Known(1));
    /// LEDS: `envoy.config.endpoint.v3.LbEndpoint`.
    pub const LB_ENDPOINT: ResourceType = ResourceType(Repr::Known(2));
    /// SDS: `envoy.extensions.transport_sockets.tls.v3.Secret`.
    pub const SECRET: ResourceType = ResourceType(Repr::Known(3));
    /// LDS: `envoy.config.listener.v3.Listener`.
    pub const LISTENER: ResourceType = ResourceType(Repr::Known(4));
    /// RDS: `envoy.config.route.v3.RouteConfiguration`.
    pub const ROUTE: ResourceType = ResourceType(Repr::Known(5));
    /// SRDS: `envoy.config.route.v3.ScopedRouteConfiguration`.
    pub const SCOPED_ROUTE: ResourceType = ResourceType(Repr::Known(6));
    /// VHDS: `envoy.config.route.v3.VirtualHost`.
    pub const VIRTUAL_HOST: ResourceType = ResourceType(Repr::Known(7));
    /// RTDS: `envoy.service.runtime.v3.Runtime`.
    pub const RUNTIME: ResourceType = ResourceType(Repr::Known(8));
    /// ECDS: `envoy.config.core.v3.TypedExtensionConfig`.
    pub const EXTENSION_CONFIG: ResourceType = ResourceType(Repr::Known(9));
    /// RLS configuration: `ratelimit.config.ratelimit.v3.RateLimitConfig`.
    pub const RATE_LIMIT_CONFIG: ResourceType = ResourceType(Repr::Known(10));

    /// Returns the types of the table, in the order in which changes are sent.
    pub fn known() -> impl ExactSizeIterator<Item = ResourceType> + DoubleEndedIterator {
        (0..KNOWN.len()).map(|index| ResourceType(Repr::Known(index as u8)))
    }

    /// Returns the type that a type URL names, and the API version of the URL.
    ///
    /// A message that is not in the table is a type of its own, of v3. `None` if the text does not have the form
    /// `prefix/full.message.Name`.
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

    /// Returns the type and the API version for the full name of a message, as
    /// [`from_type_url`](ResourceType::from_type_url) does.
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

    /// Returns the type whose resources are messages of type `M`, which may be a custom message.
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

    /// Returns the type with this short name (`cds`, `eds`, …). Case is ignored.
    #[must_use]
    pub fn from_short_name(name: &str) -> Option<ResourceType> {
        ResourceType::known().find(|resource_type| {
            resource_type
                .short_name()
                .is_some_and(|s| s.eq_ignore_ascii_case(name))
        })
    }

    /// Returns the v3 type URL.
    #[must_use]
    pub fn type_url(&self) -> &str {
        match &self.0 {
            Repr::Known(_) => self.row().map_or("", |known| known.v3_url),
            Repr::Other(url) => url,
        }
    }

    /// Returns the type URL in an API version; `None` if the version does not have the type.
    #[must_use]
    pub fn type_url_in(&self, version: ApiVersion) -> Option<&str> {
        match version {
            ApiVersion::V3 => Some(self.type_url()),
            ApiVersion::V2 => self.row()?.v2_url,
        }
    }

    /// Returns the type URL on streams of an API version: the v3 URL for types that v2 does not have.
    #[must_use]
    pub fn type_url_on(&self, version: ApiVersion) -> &str {
        self.type_url_in(version).unwrap_or(self.type_url())
    }

    /// Returns the full name of the v3 message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.type_url()[TYPE_URL_PREFIX.len()..]
    }

    /// Returns the abbreviation of the discovery service: `cds`, `eds`, …; `None` for types outside the table.
    #[must_use]
    pub fn short_name(&self) -> Option<&'static str> {
        self.row().map(|known| known.short_name)
    }

    /// Returns whether every SotW response contains all resources that the client subscribes to, so that a missing
    /// resource was deleted (LDS and CDS; xDS protocol, "Deleting Resources"). In these types a first request without
    /// names subscribes to all resources.
    #[must_use]
    pub fn all_resources_required_in_sotw(&self) -> bool {
        self.row()
            .is_some_and(|known| known.all_resources_required_in_sotw)
    }

    /// Returns the discovery service for this type alone; `None` if the API version has none.
    #[must_use]
    pub fn service(&self, version: ApiVersion) -> Option<&'static Service> {
        match version {
            ApiVersion::V3 => Some(&self.row()?.v3_service),
            ApiVersion::V2 => self.row()?.v2_service.as_ref(),
        }
    }

    fn row(&self) -> Option<&'static TypeRow> {
        match &self.0 {
            Repr::Known(index) => KNOWN.get(usize::from(*index)),
            Repr::Other(_) => None,
        }
    }
}

impl Service {
    /// Returns the aggregated discovery service of an API version.
    #[must_use]
    pub fn aggregated(version: ApiVersion) -> &'static Service {
        match version {
            ApiVersion::V3 => &ADS[0],
            ApiVersion::V2 => &ADS[1],
        }
    }
}

/// Writes the short name, or the full name of the message for types outside the table.
impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name().unwrap_or_else(|| self.message()))
    }
}

impl fmt::Debug for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceType({self})")
    }
}

#[cfg(test)]
mod tests;
