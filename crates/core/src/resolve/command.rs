//! Commands of the resolver to the client.

use std::sync::Arc;

use oxds_types::ResourceType;

/// Command of the resolver to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchCommand {
    /// Watch this resource, and pass its events to the resolver.
    Watch(ResourceType, Arc<str>),
    /// Stop watching this resource.
    Unwatch(ResourceType, Arc<str>),
}
