//! A resource as its server sent it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::ads::{CachedResource, VersionText};
use oxds_core::resource::{ParsedResource, Typed};
use oxds_types::ApiVersion;

/// An accepted resource: its bytes as its server sent them, its version and its TTL. Cheap to clone.
#[derive(Clone)]
pub struct RawResource {
    resource: ParsedResource,
    version: VersionText,
    api: ApiVersion,
    ttl: Option<Duration>,
}

impl RawResource {
    /// Joins a resource with what the cache knows about it.
    pub(crate) fn new(
        resource: ParsedResource,
        cached: Option<&CachedResource>,
        ttl: Option<Duration>,
    ) -> Self {
        Self {
            resource,
            version: cached.map_or_else(|| VersionText::from(""), |cached| cached.version.clone()),
            api: cached.map_or(ApiVersion::V3, |cached| cached.api),
            ttl,
        }
    }

    /// Returns the encoded message, byte for byte as it came. Unknown fields are included.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.resource.value()
    }

    /// Returns the version that the server gave: in delta, of the resource; in SotW, of the response.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the TTL that the server gave last. It is always `None` unless
    /// [`Options::resource_ttl`](crate::Options::resource_ttl) is on: servers send TTLs only to clients that support
    /// them.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Returns the version of the xDS API whose type URL the resource came with: see
    /// [`ResourceType::type_url_on`](oxds_types::ResourceType::type_url_on).
    #[must_use]
    pub fn api_version(&self) -> ApiVersion {
        self.api
    }

    /// Returns the resource as a type; `None` if the type is not registered for it. All watchers share the value.
    #[must_use]
    pub fn get<T: Typed>(&self) -> Option<Arc<T>> {
        self.resource.get()
    }

    pub(crate) fn into_resource(self) -> ParsedResource {
        self.resource
    }
}

/// Resources are equal if their bytes, versions and TTLs are.
impl PartialEq for RawResource {
    fn eq(&self, other: &Self) -> bool {
        (self.value(), self.version(), self.ttl) == (other.value(), other.version(), other.ttl)
    }
}

impl Eq for RawResource {}

impl fmt::Debug for RawResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawResource")
            .field("resource", &self.resource)
            .field("version", &self.version)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
