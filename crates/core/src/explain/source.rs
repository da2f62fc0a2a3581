//! Source of the resources that an explanation reads.

use bytes::Bytes;
use oxds_types::ResourceType;

/// Resources by type and name: a folder, a snapshot, the report of a client.
pub trait ResourceSource {
    /// Returns the encoded message; `None` if the resource does not exist.
    fn find(&self, resource_type: &ResourceType, name: &str) -> Option<Bytes>;

    /// Returns the names of all resources of a type, in order.
    fn names(&self, resource_type: &ResourceType) -> Vec<String>;
}
