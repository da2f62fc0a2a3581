//! Commands of the resolver to the client.

use std::sync::Arc;

use oxds_types::ResourceType;

use crate::resource::DnsTarget;

/// Command of the resolver to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchCommand {
    /// Watch this resource, and pass its events to the resolver.
    Watch(ResourceType, Arc<str>),
    /// Stop watching this resource.
    Unwatch(ResourceType, Arc<str>),
    /// Look up the addresses of this host, now and from time to time, and pass them to the resolver.
    Resolve(DnsTarget),
    /// Stop looking up this host.
    Forget(DnsTarget),
}
